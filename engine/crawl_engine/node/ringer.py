"""The node's only thread that enqueues: rings after COMMIT, and when a deadline is due."""

import heapq
import logging
import threading
from pathlib import Path

from crawl_engine.errors import CrawlError
from crawl_engine.queue import Doorbells
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.job import jobs, rings

_log = logging.getLogger(__name__)
_DEADLINE_SLACK = 0.005


class Ringer(threading.Thread):
    """Rings sequences that have work, and collects those whose deadline is due."""

    def __init__(self, folder: Path, run: int, doorbells: Doorbells) -> None:
        super().__init__(name="ringer", daemon=True)
        self._folder = folder
        self._run = run
        self._doorbells = doorbells
        self._condition = threading.Condition()
        self._pending = False
        self._deadlines: list[float] = []
        self._stopped = False

    def ring(self) -> None:
        """Ring soon: sequences are rung that the node did not lease from."""
        with self._condition:
            self._pending = True
            self._condition.notify()

    def arm(self, due: float) -> None:
        """Collect due work at that boot-time second."""
        with self._condition:
            if due not in self._deadlines:
                heapq.heappush(self._deadlines, due)
                self._condition.notify()

    def stop(self) -> None:
        """Ring what is pending, then end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def run(self) -> None:
        db = connect(self._folder / CRAWL, durable=False, busy_seconds=5, small_cache=True)
        while True:
            with self._condition:
                while not self._pending and not self._stopped and not self._is_due():
                    self._condition.wait(self._deadlines[0] - store_time() if self._deadlines else None)
                pending, self._pending = self._pending, False
                timer_due = self._is_due()
                while self._is_due():
                    heapq.heappop(self._deadlines)
                if self._stopped and not pending:
                    return
            if timer_due and self._collect_due(db):
                pending = True
            if pending:
                self._doorbells.ring()

    def _is_due(self) -> bool:
        return bool(self._deadlines) and self._deadlines[0] <= store_time() + _DEADLINE_SLACK

    def _collect_due(self, db: Database) -> list[int]:
        """Mark the sequences that are due as rung."""
        now = store_time() + _DEADLINE_SLACK
        try:
            with db.transaction():
                jobs.promote(db, self._run, now)
                return rings.ring_all(db, self._run, now)
        except CrawlError as error:  # the committing threads report a lasting fault
            _log.warning("deadline check postponed: %s", error.message)
            self.arm(store_time() + 0.1)
            return []
