"""Decides whether a node takes new jobs, how many, and when leasing pays off."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from crawl_engine.model.job import JobKind, LeasedJob
from crawl_engine.runtime.disk_space import DiskSpaceMonitor, data_paths

_PREFETCH_DIVISOR = 4
"""One job for each 4 slots waits in the node, to start as soon as a slot is free."""
_REFILLED_SECONDS = 0.05
"""After a commit that leased again, a node that holds jobs leaves the doorbells to other nodes for this long. They poll
more often; the next commit of this node leases again."""
_MAX_POLL_GAP = 0.08
"""Upper limit of that pause. Only a doorbell serves hosts with a delay, and it comes `rings.LOOKAHEAD` before the send
time: this pause and the next poll must fit into it."""


class Intake:
    """The switches that open and close a node's intake. Readable from any thread."""

    def __init__(self, folder: Path, *, standby: bool, min_free: int) -> None:
        """`standby`: a backup takes no job until it becomes a runner. `min_free`: bytes; 0 disables the check."""
        self.standby = standby
        self.draining = threading.Event()
        self.orphaned = threading.Event()
        """Set when the supervisor is gone."""
        self._disk_space = DiskSpaceMonitor(data_paths(folder), min_free)

    @property
    def accepts_jobs(self) -> bool:
        """Whether the node may lease now. Checks the disk, at most once a second."""
        return not (self.standby or self.draining.is_set() or self._disk_space.is_low())

    @property
    def alarm(self) -> str:
        """Why the node takes no job although it has free slots, or an empty text.

        Checks the disk too, so that a node that asks for no jobs, such as one of a paused run, also reports it.
        """
        self._disk_space.is_low()
        return self._disk_space.alarm


_WAKE_DIVISOR, _BATCH_WAIT_SECONDS = 2, 0.008
"""A lease waits until half of the slots are free, or this many seconds: one lease a slot would cost too much."""


class ActiveJobs(Struct):
    """Counts jobs in slots or on their way to one. Each counter has one writer at a time, so no lock is needed."""

    submitted: int = 0
    completed: int = 0

    @property
    def count(self) -> int:
        """Jobs submitted and not completed."""
        return self.submitted - self.completed


class Capacity:
    """Counts jobs from lease to commit. Thread-safe; the leasing thread holds `lease_lock`."""

    def __init__(self, concurrency: int, *, active_jobs: ActiveJobs, wakeup: threading.Event) -> None:
        """`wakeup` is set when polling the queue pays off again."""
        self.concurrency = concurrency
        self._active_jobs = active_jobs
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._declined = False
        self._free_since: float | None = None
        self._refilled_at = -_REFILLED_SECONDS
        self._polled_at = -_MAX_POLL_GAP
        self._jobs_by_host: dict[int, int] = {}
        self.lease_lock = threading.Lock()
        self.held = 0
        """Jobs leased and not committed."""
        self.exclusive = False
        """Whether the node works a job that crashed a node before; such a job runs alone."""

    @property
    def free(self) -> int:
        """Jobs the node may lease: its free slots and a few more, so that no slot idles.

        Limited so that jobs in slots and jobs waiting for a commit together are at most twice the concurrency.
        0 while a job runs alone.
        """
        return self._free(self.held)

    def after_commit(self, committed: Sequence[LeasedJob]) -> tuple[int, int, dict[int, int]]:
        """Jobs held, jobs that may be leased, and jobs held by host, once these jobs are committed."""
        held = self.held - len(committed)
        jobs_by_host = self._jobs_by_host.copy()
        _count(jobs_by_host, committed, -1)
        return held, self._free(held), jobs_by_host

    def _free(self, held: int) -> int:
        if self.exclusive:
            return 0
        slots = self.concurrency
        return min(slots + slots // _PREFETCH_DIVISOR - self._active_jobs.count, 2 * slots - held)

    def should_dequeue(self) -> bool:
        """Whether to answer a doorbell now."""
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
        with self._lock:
            self.held += len(jobs)
            _count(self._jobs_by_host, jobs, 1)
            self.exclusive = any(job.crashes for job in jobs)

    def mark_refilled(self) -> None:
        """Note that a commit leased again, up to this node's fair share."""
        self._refilled_at = time.monotonic()

    def release(self, jobs: Sequence[LeasedJob]) -> None:
        with self._lock:
            self.held -= len(jobs)
            _count(self._jobs_by_host, jobs, -1)
            self.exclusive = self.exclusive and self.held > 0
        self.notify_freed()

    def notify_freed(self) -> None:
        """Wake the queue's worker if it declined a doorbell for want of free slots and enough are free now."""
        if self._declined and self.free * _WAKE_DIVISOR >= self.concurrency and not self._recently_refilled():
            self._declined = False
            self._wakeup.set()

    def _recently_refilled(self) -> bool:
        now = time.monotonic()
        return now - self._refilled_at < _REFILLED_SECONDS and now - self._polled_at < _MAX_POLL_GAP and self.held > 0


def _count(jobs_by_host: dict[int, int], jobs: Sequence[LeasedJob], change: int) -> None:
    """Add `change` to the host's number for each job; a host without jobs is removed."""
    for job in jobs:
        if job.kind is not JobKind.EXTRACT:
            number = jobs_by_host.get(job.host, 0) + change
            if number:
                jobs_by_host[job.host] = number
            else:
                del jobs_by_host[job.host]
