"""Tunes a node's process: CPU pinning, batch scheduling, garbage collection, returning freed heap.

Pinning: the threads take turns at the GIL. On two CPUs each turn moves the lock and the data it guards from one cache
to the other, and code that runs outside the GIL takes the CPU of another node.
"""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from pathlib import Path

LARGE_PAGE_BYTES = 1_000_000
"""Size from which the tree of a page fills much of the heap."""
_TRIM_DELAY = 1.0
"""Seconds until a large page is surely committed. Large pages come in groups: one trim serves all."""
_CONTENTION_THRESHOLD = 0.45
"""Above this fraction of time in which the busiest thread waits for a CPU, the threads are unpinned."""
_INITIAL_PAUSE, _MAX_PAUSE = 0.25, 16.0
"""Seconds for which the threads stay unpinned, so that the scheduler can place them."""
_STABLE_SECONDS = 4.0
"""Seconds pinned without contention after which the pause is reset."""
_BOUND_SHARE, _LEAST_LOOK = 0.9, 0.2
_NANOSECONDS = 1e9


class HeapTrimmer:
    """Trims the heap after a large page. The allocator alone keeps free memory below a used block."""

    def __init__(self) -> None:
        self._last_large_at = float("-inf")
        self._trim_at: float | None = None

    def record_page(self, size: int) -> None:
        """Note that a page of `size` bytes was extracted. Callable from any thread."""
        if size >= LARGE_PAGE_BYTES:
            self._last_large_at = time.monotonic()
            if self._trim_at is None:
                self._trim_at = self._last_large_at + _TRIM_DELAY

    def trim_if_due(self) -> None:
        """Trim some time after a large page. Call it often, from one thread."""
        now = time.monotonic()
        if self._trim_at is not None and now >= self._trim_at:
            self._trim_at = None
            if self._last_large_at + _TRIM_DELAY > now:  # a later large page may still be in memory
                self._trim_at = self._last_large_at + _TRIM_DELAY
            _trim_heap()


def trim_heap() -> None:
    """Return freed memory to the system, if the allocator can. Slow after a very large page."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
        if trim is not None:
            trim(0)


def _trim_heap() -> None:
    # the call releases the GIL
    threading.Thread(target=trim_heap, daemon=True, name="trim").start()


def use_batch_scheduling() -> None:
    """Let threads that wake up wait for running threads instead of preempting them."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def tune_garbage_collection() -> None:
    """Collect rarely, and never scan imported objects: that would take CPU from each page."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


class CpuMeter:
    """Judges whether this process had a CPU's worth of work since the last look."""

    def __init__(self, busiest: threading.Thread) -> None:
        """The time in which this thread waits for a CPU counts, too (Linux)."""
        self._busiest = busiest
        self._looked_at, self._used = time.monotonic(), time.process_time()

    def is_bound(self) -> bool:
        """Whether it worked, or waited for a CPU, nearly all the time since the last call, if that was not just now."""
        earlier, before = self._looked_at, self._used
        self._looked_at, self._used = time.monotonic(), time.process_time()
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._used += _read_schedule(Path(f"/proc/self/task/{self._busiest.native_id}"))[1] / _NANOSECONDS
        seconds = self._looked_at - earlier
        return seconds >= _LEAST_LOOK and self._used - before >= _BOUND_SHARE * seconds


class CpuPinner:
    """Pins all threads of this process to the CPU on which the busiest one runs; unpins them under contention."""

    def __init__(self, busiest: threading.Thread) -> None:
        self._busiest = busiest
        self._allowed_cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
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
        ran, waited = _read_schedule(task)
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


def _read_schedule(task: Path) -> list[int]:
    """Nanoseconds for which a thread ran, and waited for a CPU (Linux). `task`: its folder in /proc."""
    return [int(number) for number in (task / "schedstat").read_text().split()[:2]]
