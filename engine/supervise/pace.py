"""The pace of a run: time under a supervisor and pages and rows a second, written once a second for those who look."""

import time

from engine.store import rows, runs, sequences
from engine.store.connector import Database


class Pace:
    """Counts from one look to the next."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._counted = time.monotonic()
        self._done = self._made = 0

    def count(self) -> None:
        """Add the time since the last look to the run, and write how fast it went. Raises Busy."""
        now, run = time.monotonic(), self._run
        done = sequences.total(self._db, run, "done")
        made = sum(count for count, _ in rows.counts(self._db, run).values())
        passed = max(1e-3, now - self._counted)
        rates = {
            "pages_per_s": round(max(0, done - self._done) / passed, 2),
            "rows_per_s": round(max(0, made - self._made) / passed, 2),
        }
        with self._db.transaction():
            runs.spent(self._db, run, passed, rates)
        self._counted, self._done, self._made = now, done, made
