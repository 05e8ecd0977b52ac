"""The room a node has for jobs: what it holds, how much more it may take, and when it is worth asking for."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from engine.model.job import JobKind, LeasedJob

_WAKE_DIVISOR, _BATCH_WAIT_SECONDS = 2, 0.008
"""A lease waits until half of the slots are free, or so many seconds; one for each slot would cost too much."""
_PREFETCH_DIVISOR = 4
"""One job more for so many slots waits in the node, to begin when a slot is free."""
_REFILLED_SECONDS = 0.05
"""For so long after a commit filled its places a node leaves the rings to others, who look every 20 ms, as long as it
holds jobs: their commit will lease again."""
_MAX_POLL_GAP = 0.08
"""But for so long at most. Some rings only the queue can answer, such as those of hosts with a delay: they come 100 ms
before their time (`store.sequences.LOOKAHEAD`), and waiting for the next look takes 20."""


class Capacity:
    """Counts jobs, from lease to commit. Any thread may use it; `turn` is held by the one that leases."""

    def __init__(self, concurrency: int, *, count_active: Callable[[], int], wake: Callable[[], None]) -> None:
        """`busy`: jobs in slots, or on their way to one. `wake` is called when it is worth asking again."""
        self.concurrency = concurrency
        self._count_active = count_active
        self._wake = wake
        self._lock = threading.Lock()
        self._declined = False
        self._free_since: float | None = None
        self._refilled_at = -_REFILLED_SECONDS
        self._polled_at = -_MAX_POLL_GAP
        self._jobs_by_host: Counter[int] = Counter()
        self.lease_lock = threading.Lock()
        self.held = 0
        """Jobs leased and not committed."""
        self.exclusive = False
        """Whether a suspect is worked, beside which there must be no other job."""

    @property
    def free(self) -> int:
        """Jobs it may lease: a few beyond its slots, so that none idles; none while a suspect is worked alone.

        Nor more than make twice the concurrency with those that wait to be committed.
        """
        return self._free(self.held)

    def after_commit(self, committed: Sequence[LeasedJob]) -> tuple[int, int, dict[int, int]]:
        """Once these are committed: jobs it will hold and may lease, and those it will hold that load a host."""
        held = self.held - len(committed)
        return held, self._free(held), dict(self._jobs_by_host - _count_by_host(committed))

    def _free(self, held: int) -> int:
        if self.exclusive:
            return 0
        slots = self.concurrency
        return min(slots + slots // _PREFETCH_DIVISOR - self._count_active(), 2 * slots - held)

    def should_dequeue(self) -> bool:
        """Whether a ring is to be answered now."""
        now, free = time.monotonic(), self.free
        if free <= 0:
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        few = free * _WAKE_DIVISOR < self.concurrency and now - (self._free_since or now) < _BATCH_WAIT_SECONDS
        self._declined = free <= 0 or few or self._recently_refilled()
        if not self._declined:
            self._polled_at = now
        return not self._declined

    def add_leased(self, jobs: Sequence[LeasedJob]) -> None:
        """These were leased."""
        with self._lock:
            self.held += len(jobs)
            self._jobs_by_host += _count_by_host(jobs)
            self.exclusive = any(job.crashes for job in jobs)

    def mark_refilled(self) -> None:
        """A commit filled the places it freed, as far as this node's share goes."""
        self._refilled_at = time.monotonic()

    def release(self, jobs: Sequence[LeasedJob]) -> None:
        """These were committed."""
        with self._lock:
            self.held -= len(jobs)
            self._jobs_by_host -= _count_by_host(jobs)
            self.exclusive = self.exclusive and self.held > 0
        self.notify_freed()

    def notify_freed(self) -> None:
        """There is room again: wake who answers rings, if it was room that it lacked."""
        if self._declined and self.free * _WAKE_DIVISOR >= self.concurrency and not self._recently_refilled():
            self._declined = False
            self._wake()

    def _recently_refilled(self) -> bool:
        now = time.monotonic()
        return now - self._refilled_at < _REFILLED_SECONDS and now - self._polled_at < _MAX_POLL_GAP and self.held > 0


def _count_by_host(jobs: Sequence[LeasedJob]) -> Counter[int]:
    return Counter(job.host for job in jobs if job.kind is not JobKind.EXTRACT)
