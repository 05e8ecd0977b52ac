"""The clocks for deadlines: they run while the machine sleeps and ignore changes of its wall clock."""

import math
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC))

_STEP_SECONDS, _FOLLOW_SECONDS = 5.0, 60.0
"""A clock that differs by so much was set; and how long the fastest answer counts."""


def boottime() -> float:
    """Seconds since this boot, sleep included; comparable between processes of one boot."""
    return time.clock_gettime(_CLOCK)


class StoreClock:
    """The clock of stored deadlines: boot time, or the clock of a database that machines share.

    It follows that clock from its answers, which arrive a little late: so it is slow by the least delay of an answer,
    and no wait ends early.
    """

    def __init__(self) -> None:
        self._offset = 0.0
        self._followed_at = -math.inf
        self._is_behind = False

    @property
    def is_followed(self) -> bool:
        """Whether it follows the clock of a database."""
        return self._followed_at > -math.inf

    def now(self) -> float:
        return boottime() + self._offset

    def follow(self, seconds: float) -> float:
        """`seconds`: what the database's clock said in an answer that has just arrived.

        Returns by how many seconds that clock was set, or 0: an answer that only comes late is followed by another one.
        """
        at = boottime()
        offset = seconds - at
        ahead = offset - self._offset if self.is_followed else 0.0
        was_behind, self._is_behind = self._is_behind, ahead < -_STEP_SECONDS
        if ahead > _STEP_SECONDS or (was_behind and self._is_behind):
            return ahead
        if not self._is_behind and (ahead >= 0 or at - self._followed_at > _FOLLOW_SECONDS):
            self._offset, self._followed_at = offset, at
        return 0.0


@cache
def store_clock() -> StoreClock:
    """The clock of this process, whose deadlines all belong to one store."""
    return StoreClock()


def store_time() -> float:
    """Seconds of the store's clock, to compare with stored deadlines."""
    return store_clock().now()


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
