"""Writes the table `samples`: progress and rates of a run every few seconds, for plots."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import orjson

from crawl_engine.store.db.connector import Database

_ADD = """
INSERT INTO samples (run, at, pages, rows, failed, queue, answers, p50, p95) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_SINCE = """
SELECT at, pages, rows, failed, queue, coalesce(answers, '{}') AS answers, p50, p95
FROM samples WHERE run = ? AND at >= ? ORDER BY at
"""

_PAGE_RATES = "SELECT pages FROM samples WHERE run = ? ORDER BY at DESC LIMIT +?"
_P95 = "SELECT p95 FROM samples WHERE run = ? AND p95 IS NOT NULL"

RETENTION_SECONDS = 6 * 3600.0
"""Older samples are deleted."""


class Sample(NamedTuple):
    """`at`: wall-clock seconds. `pages`, `rows`: per second since the last sample. `failed`, `queue`: jobs at `at`."""

    at: float
    pages: float
    rows: float
    failed: int
    queue: int
    answers: Mapping[str, float] = MappingProxyType({})
    """A second, by class of status, since the last sample."""
    p50: float | None = None
    """Seconds, of the answers since the last sample; so is `p95`. None: there were none."""
    p95: float | None = None


def add(db: Database, run: int, sample: Sample) -> None:
    at, pages, rows, failed, queue, answers, p50, p95 = sample
    db.execute(_ADD, (run, at, pages, rows, failed, queue, orjson.dumps(dict(answers)).decode(), p50, p95))
    db.execute("DELETE FROM samples WHERE run = ? AND at < ?", (run, sample.at - RETENTION_SECONDS))


def list_page_rates(db: Database, run: int, limit: int) -> list[float]:
    """Pages a second of the last samples of a run, the oldest first."""
    return [float(row[0]) for row in reversed(db.all(_PAGE_RATES, (run, limit)))]


def typical_p95(db: Database, run: int) -> float | None:
    """The median of the p95 of the run's samples, in seconds; None without answers."""
    values = db.column(_P95, (run,))
    if not values:
        return None
    from statistics import median  # it brings decimals, fractions and random numbers

    return median(values)


def list_since(db: Database, run: int, at: float) -> list[Sample]:
    """The samples of a run since a moment, oldest first."""
    return db.rows(Sample, _SINCE, (run, at))
