"""Checks whether the disks a run writes to are nearly full, from the file systems alone."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from crawl_engine.errors import megabytes

CHECK_INTERVAL = 1.0
"""Seconds between two checks: rare enough for every lease, and often enough for a disk that fills."""
_MIN_FREE_FILES = 50
"""Files that must still be possible: a start creates fewer."""
_FULL_BYTES = 128 * 1024
"""With less than this SQLite cannot create the files beside a database."""
_RECOVERY_FACTOR = 1.1
"""An alarm ends only with a tenth more than the minimum free, so that intake does not flap."""


class DiskSpaceMonitor:
    """Watches the file systems of some paths. `is_low` is cheap: it checks once a second."""

    def __init__(self, paths: Iterable[Path], min_free: int) -> None:
        """`min_free`: bytes each file system must have free; 0 disables the check, for the number of files, too."""
        self._paths: Sequence[Path] = list(dict.fromkeys(paths))
        self._min_free = min_free
        self._checked_at = 0.0
        self.alarm = ""
        """The disk that is nearly full, for an operator to read, or an empty text."""

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
        factor = _RECOVERY_FACTOR if self.alarm else 1.0
        required = self._min_free * factor
        for path in self._paths:
            files = free_files(path)
            if files is not None and files < _MIN_FREE_FILES * factor:
                return (
                    f"disk nearly full: room for only {files} more files (inodes);"
                    f" no new jobs until there is room for {_MIN_FREE_FILES * _RECOVERY_FACTOR:.0f} at {path}"
                )
            free = free_bytes(path)
            if free is not None and free < required:
                return (
                    f"disk nearly full: {megabytes(free)} free, min_free is {megabytes(self._min_free)};"
                    f" no new jobs until {megabytes(self._min_free * _RECOVERY_FACTOR)} are free at {path}"
                )
        return ""


def data_paths(folder: Path) -> list[Path]:
    """The parts of a data dir that may be on a file system of their own."""
    return [folder, folder / "crawl.db", folder / "pages.db", folder / "output"]


def free_bytes(path: Path) -> int | None:
    """Free bytes for an ordinary user at `path` or its nearest existing parent; None if unknown."""
    stats = _file_system_of(path)
    return stats.f_bavail * stats.f_frsize if stats is not None and stats.f_blocks else None


def free_files(path: Path) -> int | None:
    """Files that an ordinary user can still create at `path`; None if unknown or unlimited."""
    stats = _file_system_of(path)
    return stats.f_favail if stats is not None and stats.f_files else None


def is_full(path: Path) -> bool:
    """Whether not even a small file can be written where `path` is."""
    free, files = free_bytes(path), free_files(path)
    return (free is not None and free < _FULL_BYTES) or files == 0


def _file_system_of(path: Path) -> os.statvfs_result | None:
    for existing in (path, *path.parents):
        try:
            return os.statvfs(existing)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
    return None
