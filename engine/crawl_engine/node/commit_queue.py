"""Collects finished jobs until there are enough of them for one commit."""

import threading
import time

from crawl_engine.node.capacity import Capacity
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.next_page import leads_to_one_page

MAX_WAIT_SECONDS = 0.05
"""Longest wait of a finished job for others."""
_IDLE_WAIT_SECONDS = 1.0
_BATCH_NUMERATOR, _BATCH_DENOMINATOR = 3, 4
"""A batch is ready when this fraction of the node's jobs is finished."""
_IDLE_BATCH_DIVISOR = 2
"""A node with free slots commits at half of its jobs: its hosts limit it and wait for the places that a commit
frees."""
_MAX_SERIES = 4
"""A node with so few series, and nothing else, leases the next page of a series before it commits the last one.
With more series a commit serves many pages anyway, and the extra transactions cost more than they save."""


class CommitQueue:
    """Passes outcomes from the fetch loop to the committer: 3/4 of the node's jobs, or what 50 ms bring.

    A page that leads to one page is offered first: once that is leased, its commit can wait for those that follow.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._condition = threading.Condition()
        self._pending: list[JobOutcome] = []
        self._pending_since = 0.0
        self._leading: list[JobOutcome] = []
        """Outcomes that lead to one page and are not offered yet."""
        self._continued = 0
        """Pending outcomes whose next page is leased already."""
        self._closed = False

    def put(self, outcome: JobOutcome) -> None:
        """Add a finished job. Callable from any thread."""
        with self._condition:
            if not self._pending:
                self._pending_since = time.monotonic()
                self._condition.notify()
            self._pending.append(outcome)
            if leads_to_one_page(outcome) and self._capacity.held - self._continued <= _MAX_SERIES:
                self._leading.append(outcome)
                self._condition.notify()
            elif self._is_batch_ready():
                self._condition.notify()

    def close(self) -> None:
        """Make `take` return what is pending at once, and None after that."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def take_leading(self) -> list[JobOutcome]:
        """The outcomes that lead to one page each; each is returned once and stays pending."""
        with self._condition:
            leading, self._leading = self._leading, []
            return leading

    def mark_continued(self) -> None:
        """Note that the next page of a pending outcome is leased, so that the batch may wait."""
        with self._condition:
            self._continued += 1

    def take(self) -> list[JobOutcome] | None:
        """The next batch. Empty if none became ready within a second or so, or an outcome leads to one page.

        None once the queue is closed.
        """
        with self._condition:
            batch = self._ready_batch()
            if batch or (self._closed and not self._pending):
                return batch or None
            if not self._leading:
                left = self._pending_since + MAX_WAIT_SECONDS - time.monotonic()
                self._condition.wait(left if self._pending else _IDLE_WAIT_SECONDS)
            return self._ready_batch()

    def _ready_batch(self) -> list[JobOutcome]:
        if not self._pending:
            return []
        waited = time.monotonic() - self._pending_since
        if waited < MAX_WAIT_SECONDS and not self._closed and not self._is_batch_ready():
            return []
        batch, self._pending = self._pending, []
        self._leading, self._continued = [], 0
        return batch

    def _is_batch_ready(self) -> bool:
        pending = len(self._pending) - self._continued - len(self._leading)
        held = self._capacity.held - self._continued
        if held <= self._capacity.concurrency:
            return pending * _IDLE_BATCH_DIVISOR >= held
        return pending * _BATCH_DENOMINATOR >= held * _BATCH_NUMERATOR
