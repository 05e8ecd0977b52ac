"""Writes the table `samples`: progress and rates of a run every few seconds, for plots."""

from typing import NamedTuple

from engine.store.db.connector import Database

_ADD = "INSERT INTO samples (run, at, pages, rows, failed, queue) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_DELETE_OLD = "DELETE FROM samples WHERE run = ? AND at < ?"
_SINCE = "SELECT at, pages, rows, failed, queue FROM samples WHERE run = ? AND at >= ? ORDER BY at"

RETENTION_SECONDS = 6 * 3600.0
"""Older samples are deleted."""


class Sample(NamedTuple):
    """`at`: wall-clock seconds. `pages`, `rows`: per second since the last sample. `failed`, `queue`: jobs at `at`."""

    at: float
    pages: float
    rows: float
    failed: int
    queue: int


def add(db: Database, run: int, sample: Sample) -> None:
    """Add a sample and delete expired ones."""
    db.execute(_ADD, (run, *sample))
    db.execute(_DELETE_OLD, (run, sample.at - RETENTION_SECONDS))


def list_since(db: Database, run: int, at: float) -> list[Sample]:
    """The samples of a run since a moment, oldest first."""
    return [Sample(*row) for row in db.all(_SINCE, (run, at))]
