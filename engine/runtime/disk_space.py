"""Free space: whether the disks a run writes to are nearly full. Asks the file systems alone, never a database."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

CHECK_INTERVAL = 1.0
"""Seconds between two looks: cheap enough for a lease's gate, and soon enough for a disk that fills."""
_RECOVERY_FACTOR = 1.1
"""Space counts as back only with a tenth more than the least, so that intake does not flutter."""


class DiskSpaceMonitor:
    """Watches the file systems of some places. `low` may be asked at any rate; it looks once a second."""

    def __init__(self, places: Iterable[Path], least: int) -> None:
        """`least`: free bytes each file system must have; 0: nobody looks."""
        self._paths: Sequence[Path] = list(dict.fromkeys(places))
        self._min_free = least
        self._checked_at = 0.0
        self.alarm = ""
        """What is nearly full, for an operator to read; empty: nothing is."""

    def is_low(self) -> bool:
        """Whether a disk is nearly full."""
        if self._min_free:
            now = time.monotonic()
            if now - self._checked_at >= CHECK_INTERVAL:
                self._checked_at = now
                self.alarm = self._check()
        return bool(self.alarm)

    def add_paths(self, places: Iterable[Path]) -> None:
        """Look at these places, too."""
        self._paths = list(dict.fromkeys([*self._paths, *places]))

    def _check(self) -> str:
        wanted = self._min_free * (_RECOVERY_FACTOR if self.alarm else 1.0)
        for place in self._paths:
            free = free_bytes(place)
            if free is not None and free < wanted:
                return (
                    f"disk nearly full: {free / 1e6:,.1f} MB free, min_free is {self._min_free / 1e6:,.1f} MB;"
                    f" nothing more is taken until there is space at {place}"
                )
        return ""


def data_paths(folder: Path) -> list[Path]:
    """What of a data dir may lie on a file system of its own."""
    return [folder, folder / "crawl.db", folder / "pages.db", folder / "output"]


def free_bytes(place: Path) -> int | None:
    """Bytes an ordinary user may still write where `place` is, or is to be made; None where nobody can tell."""
    for known in (place, *place.parents):
        try:
            told = os.statvfs(known)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
        return told.f_bavail * told.f_frsize if told.f_blocks else None
    return None
