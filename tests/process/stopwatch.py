"""Seconds of a machine that has time for us: what is promised in seconds is tested on busy machines too."""

import os
import subprocess
import sys
import time

_WORK = "for _ in range(3_000_000): pass"


class Stopwatch:
    """Runs from its making."""

    def __init__(self) -> None:
        self._slowness = slowness()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Wall time since then, divided by how many times slower than alone a process ran, before or now."""
        passed = time.monotonic() - self._began
        return passed / max(self._slowness, slowness())


def slowness() -> float:
    """The wall time a busy process takes here, by its processor time; 1 where it never waits for a processor."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", _WORK])
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return max(1.0, (time.monotonic() - began) / (used.ru_utime + used.ru_stime))
