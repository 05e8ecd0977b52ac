"""The clock for deadlines: it runs while the machine sleeps and ignores changes of the wall clock."""

import subprocess
import sys
import time
from functools import cache
from pathlib import Path

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC))


def boottime() -> float:
    """Seconds since this boot, sleep included; comparable between processes of one boot."""
    return time.clock_gettime(_CLOCK)


@cache
def boot_id() -> str:
    """An id of this boot: a deadline stored under another boot is void."""
    linux = Path("/proc/sys/kernel/random/boot_id")
    if linux.exists():
        return linux.read_text().strip()
    if sys.platform == "darwin":
        result = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False)
        return result.stdout.strip()
    return ""
