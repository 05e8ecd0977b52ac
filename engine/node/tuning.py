"""Keeps the threads of a node together on one processor, for as long as it has that to itself. Linux; else nothing.

The threads take turns at the interpreter. On two processors each turn moves the lock and all it guards from one cache
to the other, and what runs beside the interpreter takes the place of another node: a tenth of a page's time.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

_CONTENTION_THRESHOLD = 0.45
"""The part of the time in which a thread waits for a processor that makes the node look for another one."""
_INITIAL_PAUSE, _MAX_PAUSE = 0.25, 16.0
"""Seconds in which the system places the threads, before they are kept together again."""
_STABLE_SECONDS = 4.0
"""Seconds on one processor after which it counts as a good place."""
_NANOSECONDS = 1e9


def use_batch_scheduling() -> None:
    """Have threads of this process that wake wait for those that work, instead of pushing them aside."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class CpuPinner:
    """Places the threads of this process where one of them, the busiest, runs."""

    def __init__(self, thread: Callable[[], int | None]) -> None:
        """`thread` tells the native id of the busiest one; None: it does not run yet."""
        self._get_thread_id = thread
        self._allowed_cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
        self._pinned_since: float | None = None
        self._sampled_at = 0.0
        self._waited_ns = 0
        self._pause = _INITIAL_PAUSE
        self._unpinned_until = self._disabled_until = 0.0

    def adjust(self) -> None:
        """Look at how long the thread had to wait; keep the threads together, or let them go. To be called often."""
        now = time.monotonic()
        if len(self._allowed_cpus) < 2 or now < self._disabled_until or (thread := self._get_thread_id()) is None:
            return
        try:
            self._adjust(Path(f"/proc/self/task/{thread}"), now)
        except (OSError, ValueError, IndexError):  # the system does not tell, or does not let us, perhaps for a while
            self._disabled_until, self._pinned_since = now + _MAX_PAUSE, None
            with contextlib.suppress(OSError):
                self._set_affinity(self._allowed_cpus)

    def _adjust(self, task: Path, now: float) -> None:
        ran, waited = map(int, (task / "schedstat").read_text().split()[:2])
        if not ran:
            raise ValueError("a kernel that keeps no account tells nothing but zeros")
        crowded = (waited - self._waited_ns) / _NANOSECONDS > _CONTENTION_THRESHOLD * (now - self._sampled_at)
        self._waited_ns, self._sampled_at = waited, now
        if self._pinned_since is None:
            if now >= self._unpinned_until:
                # after the name, which may hold anything: state is the first, the processor the 37th
                self._set_affinity({int((task / "stat").read_text().rpartition(")")[2].split()[36])})
                self._pinned_since = now
        elif crowded:
            self._pause = (
                _INITIAL_PAUSE if now - self._pinned_since > _STABLE_SECONDS else min(self._pause * 2, _MAX_PAUSE)
            )
            self._set_affinity(self._allowed_cpus)
            self._pinned_since, self._unpinned_until = None, now + self._pause

    def _set_affinity(self, processors: set[int]) -> None:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread.name), processors)
