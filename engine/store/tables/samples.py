"""Samples: how far and how fast a run was, every few seconds, for plots. Alone in writing `samples`."""

from typing import NamedTuple

from engine.store.db.connector import Database

_ADD = "INSERT INTO samples (run, at, pages, rows, failed, queue) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_DELETE_OLD = "DELETE FROM samples WHERE run = ? AND at < ?"
_SINCE = "SELECT at, pages, rows, failed, queue FROM samples WHERE run = ? AND at >= ? ORDER BY at"

RETENTION_SECONDS = 6 * 3600.0
"""Seconds back from now."""


class Sample(NamedTuple):
    """`at`: wall-clock seconds. `pages`, `rows`: a second, since the one before. `failed`, `queue`: as they stood."""

    at: float
    pages: float
    rows: float
    failed: int
    queue: int


def add(db: Database, run: int, sample: Sample) -> None:
    """Keep one, and forget what is too old to be shown."""
    db.execute(_ADD, (run, *sample))
    db.execute(_DELETE_OLD, (run, sample.at - RETENTION_SECONDS))


def list_since(db: Database, run: int, at: float) -> list[Sample]:
    """Those of a run from a moment on, the oldest first."""
    return [Sample(*row) for row in db.all(_SINCE, (run, at))]
