"""Keeps the threads of a node together on one processor, for as long as it has that to itself. Linux; else nothing.

The threads take turns at the interpreter. On two processors each turn moves the lock and all it guards from one cache
to the other, and what runs beside the interpreter takes the place of another node: a tenth of a page's time.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

_CROWDED = 0.45
"""The part of the time in which a thread waits for a processor that makes the node look for another one."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 16.0
"""Seconds in which the system places the threads, before they are kept together again."""
_QUIET = 4.0
"""Seconds on one processor after which it counts as a good place."""
_NANO = 1e9


def work_in_batches() -> None:
    """Have threads of this process that wake wait for those that work, instead of pushing them aside."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Processor:
    """Places the threads of this process where one of them, the busiest, runs."""

    def __init__(self, thread: Callable[[], int | None]) -> None:
        """`thread` tells the native id of the busiest one; None: it does not run yet."""
        self._thread = thread
        self._allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
        self._kept_since: float | None = None
        self._looked_at = 0.0
        self._waited = 0
        self._pause = _FIRST_PAUSE
        self._loose_until = self._blind_until = 0.0

    def look(self) -> None:
        """Look at how long the thread had to wait; keep the threads together, or let them go. To be called often."""
        now = time.monotonic()
        if len(self._allowed) < 2 or now < self._blind_until or (thread := self._thread()) is None:
            return
        try:
            self._look(Path(f"/proc/self/task/{thread}"), now)
        except (OSError, ValueError, IndexError):  # the system does not tell, or does not let us, perhaps for a while
            self._blind_until, self._kept_since = now + _LONGEST_PAUSE, None
            with contextlib.suppress(OSError):
                self._place(self._allowed)

    def _look(self, task: Path, now: float) -> None:
        ran, waited = map(int, (task / "schedstat").read_text().split()[:2])
        if not ran:
            raise ValueError("a kernel that keeps no account tells nothing but zeros")
        crowded = (waited - self._waited) / _NANO > _CROWDED * (now - self._looked_at)
        self._waited, self._looked_at = waited, now
        if self._kept_since is None:
            if now >= self._loose_until:
                # after the name, which may hold anything: state is the first, the processor the 37th
                self._place({int((task / "stat").read_text().rpartition(")")[2].split()[36])})
                self._kept_since = now
        elif crowded:
            self._pause = _FIRST_PAUSE if now - self._kept_since > _QUIET else min(self._pause * 2, _LONGEST_PAUSE)
            self._place(self._allowed)
            self._kept_since, self._loose_until = None, now + self._pause

    def _place(self, processors: set[int]) -> None:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread.name), processors)
