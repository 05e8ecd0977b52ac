"""The room a node has for jobs: what it holds, how much more it may take, and when it is worth asking for."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from engine.model.job import JobKind, LeasedJob

_ROOMY, _GATHER_SECONDS = 2, 0.008
"""A lease waits until half of the slots are free, or so many seconds; one for each slot would cost too much."""
_SPARE = 4
"""One job more for so many slots waits in the node, to begin when a slot is free."""
_FED_SECONDS = 0.05
"""For so long after a commit filled its places a node leaves the rings to others, who look every 20 ms, as long as it
holds jobs: their commit will lease again."""
_UNASKED_SECONDS = 0.08
"""But for so long at most. Some rings only the queue can answer, such as those of hosts with a delay: they come 100 ms
before their time (`store.sequences.LOOKAHEAD`), and waiting for the next look takes 20."""


class Room:
    """Counts jobs, from lease to commit. Any thread may use it; `turn` is held by the one that leases."""

    def __init__(self, concurrency: int, *, busy: Callable[[], int], wake: Callable[[], None]) -> None:
        """`busy`: jobs in slots, or on their way to one. `wake` is called when it is worth asking again."""
        self.concurrency = concurrency
        self._busy = busy
        self._wake = wake
        self._lock = threading.Lock()
        self._starved = False
        self._since: float | None = None
        self._fed_at = -_FED_SECONDS
        self._asked_at = -_UNASKED_SECONDS
        self._on_hosts: Counter[int] = Counter()
        self.turn = threading.Lock()
        self.held = 0
        """Jobs leased and not committed."""
        self.alone = False
        """Whether a suspect is worked, beside which there must be no other job."""

    @property
    def free(self) -> int:
        """Jobs it may lease: a few beyond its slots, so that none idles; none while a suspect is worked alone.

        Nor more than make twice the concurrency with those that wait to be committed.
        """
        return self._free(self.held)

    def after(self, committed: Sequence[LeasedJob]) -> tuple[int, int, dict[int, int]]:
        """Once these are committed: jobs it will hold and may lease, and those it will hold that load a host."""
        held = self.held - len(committed)
        return held, self._free(held), dict(self._on_hosts - _hosts(committed))

    def _free(self, held: int) -> int:
        if self.alone:
            return 0
        slots = self.concurrency
        return min(slots + slots // _SPARE - self._busy(), 2 * slots - held)

    def worth_asking(self) -> bool:
        """Whether a ring is to be answered now."""
        now, free = time.monotonic(), self.free
        if free <= 0:
            self._since = None
        elif self._since is None:
            self._since = now
        few = free * _ROOMY < self.concurrency and now - (self._since or now) < _GATHER_SECONDS
        self._starved = free <= 0 or few or self._is_fed()
        if not self._starved:
            self._asked_at = now
        return not self._starved

    def take(self, jobs: Sequence[LeasedJob]) -> None:
        """These were leased."""
        with self._lock:
            self.held += len(jobs)
            self._on_hosts += _hosts(jobs)
            self.alone = any(job.crashes for job in jobs)

    def fed(self) -> None:
        """A commit filled the places it freed, as far as this node's share goes."""
        self._fed_at = time.monotonic()

    def let_go(self, jobs: Sequence[LeasedJob]) -> None:
        """These were committed."""
        with self._lock:
            self.held -= len(jobs)
            self._on_hosts -= _hosts(jobs)
            self.alone = self.alone and self.held > 0
        self.freed()

    def freed(self) -> None:
        """There is room again: wake who answers rings, if it was room that it lacked."""
        if self._starved and self.free * _ROOMY >= self.concurrency and not self._is_fed():
            self._starved = False
            self._wake()

    def _is_fed(self) -> bool:
        now = time.monotonic()
        return now - self._fed_at < _FED_SECONDS and now - self._asked_at < _UNASKED_SECONDS and self.held > 0


def _hosts(jobs: Sequence[LeasedJob]) -> Counter[int]:
    return Counter(job.host for job in jobs if job.kind is not JobKind.EXTRACT)
