"""The books of a run: its time and speed, the limits set for it, whether too much failed."""

import time

from engine.settings import Settings
from engine.store import rows, runs, sequences
from engine.store.connector import Database


class Books:
    """Kept by one supervisor for its run."""

    def __init__(self, db: Database, run: int, settings: Settings) -> None:
        self._db = db
        self._run = run
        self._settings = settings
        self._began = self._counted = time.monotonic()
        self._done = self._made = 0

    def count_time(self) -> None:
        """Add the time since the last look to the run, and how fast it went. After a Busy the next look counts it."""
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

    def limit_reached(self) -> str | None:
        """The limit that ends the run now, as the user wrote it."""
        limit, seconds = self._settings.max_pages, self._settings.max_time
        if limit is not None and sequences.total(self._db, self._run, "done") >= limit:
            return f"--max-pages {limit} reached"
        if seconds is not None and time.monotonic() - self._began >= seconds:
            return f"--max-time {seconds:g} s reached"
        return None

    def too_many_failed(self) -> bool:
        """Whether more jobs failed than the setting allows."""
        return sequences.total(self._db, self._run, "failed") > self._settings.max_failed
