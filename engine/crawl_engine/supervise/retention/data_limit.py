"""Watches the size of a data dir for `max_data`: measures it in steps, and raises an alarm."""

import time
from collections.abc import Iterator
from pathlib import Path

from crawl_engine.errors import CrawlError, megabytes
from crawl_engine.supervise.retention.choice import iterate_bytes

_STEP_SECONDS, _PAUSE_SECONDS, _PAUSE_FACTOR = 0.005, 1.0, 20.0
"""Of one step; between two measurements, at least; and at least so many times what one took."""
_RECOVERY_FACTOR = 0.9
"""Runs are deleted down to a tenth less than the maximum, where an alarm ends: intake does not flap."""


class DataLimit:
    """The bytes that a data dir may have. `alarm` names a full one; otherwise it is empty."""

    def __init__(self, data: Path, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._data = data
        self._parts: Iterator[int] | None = None
        self._total = 0
        self._worked = 0.0
        self._next_at = 0.0
        self._used = 0
        self._is_full = False
        self.is_measured = False
        """Whether the size is that of now, and not that before something was deleted."""
        self.is_exhausted = False
        """Whether no run is left that may be deleted: then the maximum itself ends the alarm."""
        self.is_deleting = False
        """Whether runs are being deleted: until that is over, the alarm stays, and no job is leased."""

    @property
    def alarm(self) -> str:
        """The full data dir, for an operator to read, or an empty text."""
        if not self._is_full:
            return ""
        then = "no new jobs until old runs are deleted"
        return f"data directory full: {self._describe()}; {then}"

    @property
    def dead_end(self) -> str:
        """Why the data dir stays full, with what to do, or an empty text: only a person can make room."""
        if not (self._is_full and self.is_exhausted and self.is_measured):
            return ""
        remedy = "raise max_data, or delete something; the next run goes on from here"
        return f"data directory full: {self._describe()}, and no run is left to delete; {remedy}"

    @property
    def resume_bytes(self) -> int:
        """How many bytes end the alarm."""
        return int(self.max_bytes * _RECOVERY_FACTOR)

    def _describe(self) -> str:
        return f"{megabytes(self._used)}, max_data is {megabytes(self.max_bytes)}"

    def check(self) -> None:
        """Continue to measure for a moment, if it is due."""
        if self.is_deleting:
            return
        now = time.monotonic()
        if self._parts is None:
            if now < self._next_at:
                return
            self._parts, self._total, self._worked = iterate_bytes(self._data), 0, 0.0
        try:
            for part in self._parts:
                self._total += part
                if time.monotonic() - now > _STEP_SECONDS:
                    self._worked += time.monotonic() - now
                    return
        except CrawlError:  # a database that cannot be read now: measured again later
            self._parts = None
            self._next_at = now + _PAUSE_SECONDS
            return
        self._worked += time.monotonic() - now
        self._parts = None
        self._next_at = time.monotonic() + max(_PAUSE_SECONDS, _PAUSE_FACTOR * self._worked)
        self._used, self.is_measured = self._total, True
        is_emptied = self._is_full and not self.is_exhausted
        self._is_full = self._used > (self.resume_bytes if is_emptied else self.max_bytes)
        if not self._is_full:
            self.is_exhausted = False

    def end_deletion(self) -> None:
        """Measure again: at once, if something was deleted. Until then the alarm stays."""
        self._parts, self.is_measured, self.is_deleting = None, False, False
        if not self.is_exhausted:
            self._next_at = 0.0
