"""Measures seconds corrected for a busy machine, so that time limits can be tested on one."""

import os
import subprocess
import sys
import time

_WORK = "for _ in range(3_000_000): pass"


class Stopwatch:
    """Starts when it is created."""

    def __init__(self) -> None:
        self._slowness = slowness()
        self._started_at = time.monotonic()

    def seconds(self) -> float:
        """Wall time since the start, divided by the slowdown of a process then or now, whichever is greater."""
        passed = time.monotonic() - self._started_at
        return passed / max(self._slowness, slowness())


def slowness() -> float:
    """Wall time of a busy process divided by its CPU time; 1 when it never waits for a CPU."""
    started_at = time.monotonic()
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", _WORK])
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return max(1.0, (time.monotonic() - started_at) / (used.ru_utime + used.ru_stime))
