"""A disk small enough to fill: a tmpfs in a private mount namespace."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_NEW_NAMESPACE, _PRIVATE, _REMOUNT, _READ_ONLY, _DETACH = 0x20000, 0x44000, 0x20, 0x1, 0x2


class SmallDisk:
    """Mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free(self) -> int:
        stats = os.statvfs(self.path)
        return stats.f_bavail * stats.f_frsize

    def fill(self, leave: int = 0) -> Path:
        """Write a ballast file that leaves this many bytes free; delete it to free space."""
        ballast = self.path / "ballast"
        with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while (more := self.free - leave) > 0:
                file.write(bytes(min(more, 1 << 20)))
        return ballast

    @property
    def free_files(self) -> int:
        return os.statvfs(self.path).f_favail

    def use_up_files(self, leave: int) -> Path:
        """Create empty files until this many more are possible; returns their folder."""
        ballast = self.path / "files"
        ballast.mkdir(exist_ok=True)
        number = 0
        while self.free_files > leave:
            (ballast / str(number)).touch()
            number += 1
        return ballast

    def read_only(self) -> None:
        """Remount read-only, also for root."""
        _call("mount", b"crawl", bytes(self.path), b"tmpfs", _REMOUNT | _READ_ONLY, None)


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "24m", files: int = 10_000) -> Iterator[SmallDisk]:
    """Mount a tmpfs at `folder`; skip the test, with the reason, where mounting is not possible.

    From then on the test thread and its child processes have a private mount namespace.
    """
    folder.mkdir(exist_ok=True)
    try:
        _call("unshare", _NEW_NAMESPACE)
        _call("mount", b"none", b"/", None, _PRIVATE, None)
        _call("mount", b"crawl", bytes(folder), b"tmpfs", 0, f"size={size},nr_inodes={files}".encode())
    except (OSError, AttributeError) as error:
        pytest.skip(f"a small disk cannot be mounted: {error}")
    try:
        yield SmallDisk(folder)
    finally:
        _call("umount2", bytes(folder), _DETACH)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
