"""Checks whether the disks a run writes to are nearly full, from the file systems alone."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

CHECK_INTERVAL = 1.0
"""Seconds between two checks: cheap enough for every lease, and soon enough for a disk that fills."""
_RECOVERY_FACTOR = 1.1
"""An alarm ends only with a tenth more than the minimum free, so that intake does not flap."""


class DiskSpaceMonitor:
    """Watches the file systems of some paths. `is_low` is cheap: it checks once a second."""

    def __init__(self, paths: Iterable[Path], min_free: int) -> None:
        """`min_free`: bytes each file system must have free; 0 disables the check."""
        self._paths: Sequence[Path] = list(dict.fromkeys(paths))
        self._min_free = min_free
        self._checked_at = 0.0
        self.alarm = ""
        """Which disk is nearly full, for an operator to read; empty where none is."""

    def is_low(self) -> bool:
        """Whether a disk is nearly full."""
        if self._min_free:
            now = time.monotonic()
            if now - self._checked_at >= CHECK_INTERVAL:
                self._checked_at = now
                self.alarm = self._check()
        return bool(self.alarm)

    def add_paths(self, paths: Iterable[Path]) -> None:
        """Watch these paths too."""
        self._paths = list(dict.fromkeys([*self._paths, *paths]))

    def _check(self) -> str:
        required = self._min_free * (_RECOVERY_FACTOR if self.alarm else 1.0)
        for path in self._paths:
            free = free_bytes(path)
            if free is not None and free < required:
                return (
                    f"disk nearly full: {free / 1e6:,.1f} MB free, min_free is {self._min_free / 1e6:,.1f} MB;"
                    f" no new jobs until there is space at {path}"
                )
        return ""


def data_paths(folder: Path) -> list[Path]:
    """The parts of a data dir that may be on a file system of their own."""
    return [folder, folder / "crawl.db", folder / "pages.db", folder / "output"]


def free_bytes(path: Path) -> int | None:
    """Free bytes for an ordinary user where `path` is, or will be created; None where that is unknown."""
    for existing in (path, *path.parents):
        try:
            stats = os.statvfs(existing)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
        return stats.f_bavail * stats.f_frsize if stats.f_blocks else None
    return None
