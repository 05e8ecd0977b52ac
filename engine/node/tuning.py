"""Tunes a node's process: CPU pinning and batch scheduling (Linux), garbage collection.

Pinning: the threads take turns at the GIL. On two CPUs each turn moves the lock and the data it guards from one cache
to the other, and code that runs outside the GIL takes the CPU of another node: a tenth of a page's time.
"""

import contextlib
import gc
import os
import threading
import time
from pathlib import Path

_CONTENTION_THRESHOLD = 0.45
"""Fraction of the time the busiest thread waits for a CPU above which the threads are unpinned."""
_INITIAL_PAUSE, _MAX_PAUSE = 0.25, 16.0
"""Seconds the threads stay unpinned, so that the scheduler can place them, before they are pinned again."""
_STABLE_SECONDS = 4.0
"""Seconds pinned without contention after which the pause is reset."""
_NANOSECONDS = 1e9


def use_batch_scheduling() -> None:
    """Let threads that wake up wait for those that run, instead of preempting them."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def tune_garbage_collection() -> None:
    """Collect rarely, and never scan imported objects: that costs a twentieth of a page's time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def allowed_cpus() -> set[int]:
    """The CPUs that this thread may use now; empty where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()


def let_run_on(pid: int, cpus: set[int]) -> None:
    """Let a child use these CPUs, although the thread that started it may be pinned to one by now."""
    if cpus:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, cpus)


class CpuPinner:
    """Pins all threads of this process to the CPU on which the busiest one runs; unpins them under contention."""

    def __init__(self, busiest: threading.Thread) -> None:
        self._busiest = busiest
        self._allowed_cpus = allowed_cpus()
        self._pinned_since: float | None = None
        self._sampled_at = 0.0
        self._waited_ns = 0
        self._pause = _INITIAL_PAUSE
        self._unpinned_until = self._disabled_until = 0.0

    def adjust(self) -> None:
        """Sample how long the busiest thread waited for a CPU, then pin or unpin. Call it a few times a second."""
        now = time.monotonic()
        if len(self._allowed_cpus) < 2 or now < self._disabled_until or (thread := self._busiest.native_id) is None:
            return
        try:
            self._adjust(Path(f"/proc/self/task/{thread}"), now)
        except (OSError, ValueError, IndexError):  # /proc or the affinity call is not available, perhaps for a while
            self._disabled_until, self._pinned_since = now + _MAX_PAUSE, None
            with contextlib.suppress(OSError):
                self._set_affinity(self._allowed_cpus)

    def _adjust(self, task: Path, now: float) -> None:
        ran, waited = map(int, (task / "schedstat").read_text().split()[:2])
        if not ran:
            raise ValueError("a kernel without scheduler statistics reports nothing but zeros")
        contended = (waited - self._waited_ns) / _NANOSECONDS > _CONTENTION_THRESHOLD * (now - self._sampled_at)
        self._waited_ns, self._sampled_at = waited, now
        if self._pinned_since is None:
            if now >= self._unpinned_until:
                # the name may hold any character: behind it, the state is the first field and the CPU the 37th
                self._set_affinity({int((task / "stat").read_text().rpartition(")")[2].split()[36])})
                self._pinned_since = now
        elif contended:
            self._pause = (
                _INITIAL_PAUSE if now - self._pinned_since > _STABLE_SECONDS else min(self._pause * 2, _MAX_PAUSE)
            )
            self._set_affinity(self._allowed_cpus)
            self._pinned_since, self._unpinned_until = None, now + self._pause

    def _set_affinity(self, cpus: set[int]) -> None:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(int(thread.name), cpus)
