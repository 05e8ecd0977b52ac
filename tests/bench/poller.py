"""Follows a number in the crawl.db of a running crawl."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Self

from crawl_engine.store.db.sqlite import sqlite3

DONE = "SELECT total(done) FROM sequences WHERE kind = 'page'"
REEXTRACTED = "SELECT reextracted FROM runs ORDER BY seq DESC LIMIT 1"


class Poller(threading.Thread):
    """Reads the number at even intervals, from entry to exit."""

    def __init__(self, path: Path, sql: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._path, self._sql, self._seconds = path, sql, seconds
        self._stopped = threading.Event()
        self.samples: list[tuple[float, float]] = []
        """`time.monotonic()` and the number."""

    def run(self) -> None:
        while not self._path.exists():
            if self._stopped.wait(0.01):
                return
        with contextlib.closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=5)) as db:
            while not self._stopped.wait(self._seconds):
                with contextlib.suppress(sqlite3.Error, TypeError):
                    self.samples.append((time.monotonic(), float(db.execute(self._sql).fetchone()[0])))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()

    def time_of(self, number: float) -> float:
        """When the number was reached, between the samples around it; of 0: when it was left."""
        below, above = self.samples[0], self.samples[-1]
        for sample in self.samples:
            if sample[1] >= number and sample[1] > 0:
                above = sample
                break
            below = sample
        if above[1] <= below[1]:
            return above[0]
        return below[0] + (above[0] - below[0]) * (number - below[1]) / (above[1] - below[1])

    def rate(self, start: float, end: float) -> float:
        """Per second, between two fractions of the last number."""
        last = self.samples[-1][1]
        return (end - start) * last / (self.time_of(end * last) - self.time_of(start * last))
