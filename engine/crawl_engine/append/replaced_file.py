"""Replaces a file as a whole: writes a temporary file beside it, flushes, renames.

A kill or a full disk leaves the old file unchanged. The temporary file has a fixed name and is locked, so that the next
replacement deletes what a killed one left, and two at the same time do not mix.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from crawl_engine.append.formats.file_writer import fsync_dir
from crawl_engine.errors import StorageError
from crawl_engine.runtime.file_lock import try_lock_file

_DIRECT_FOLDERS = (("/", "dev"), ("/", "proc"))
_OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MAX_NAME_BYTES = 200
_NO_RENAME = (errno.EACCES, errno.EPERM, errno.EBUSY)
"""Errors of a rename in a folder with the sticky bit, and onto a mount point."""
_SUFFIXES = ("", "-journal", "-wal", "-shm")


@contextlib.contextmanager
def open_replacement(target: Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of `target` when the block ends without an error.

    A link stays a link: the file it leads to is replaced. Permissions and owner are kept. A device or a pipe is written
    directly; so is an existing file in a folder that may not be written.
    Raises OSError, and StorageError while another process replaces the file.
    """
    if _is_written_directly(target):
        with target.open("wb") as stream:
            yield stream
        return
    with _temporary_file(target) as temp, os.fdopen(os.dup(temp.fd), "wb") as stream:
        yield stream
        stream.flush()
        temp.take_place()


@contextlib.contextmanager
def create_file(target: Path) -> Iterator[Path]:
    """An empty file that becomes `target`, which must not exist, when the block ends without an error.

    For writers that need a path, such as SQLite. Raises as `open_replacement`.
    """
    with _temporary_file(target) as temp:
        yield temp.path
        temp.take_place()


class _TemporaryFile:
    """The locked temporary file beside a target. `target`: not a link."""

    def __init__(self, fd: int, path: Path, target: Path) -> None:
        self.fd = fd
        self.path = path
        self._target = target

    def take_place(self) -> None:
        """Become the target. Where a rename is impossible or changes the owner, the content is copied."""
        os.fsync(self.fd)
        if not self._adopt_permissions() or not self._rename():
            with self.path.open("rb") as source, self._target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            self.discard()

    def discard(self) -> None:
        """Delete it, with the files that SQLite may have put beside it."""
        for suffix in _SUFFIXES:
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink()

    def _adopt_permissions(self) -> bool:
        """Take owner and permissions of the target, if it exists; False: the owner cannot be kept."""
        try:
            status = self._target.stat()
        except FileNotFoundError:
            return True
        own = os.fstat(self.fd)
        try:
            if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(self.fd, status.st_uid, status.st_gid)
            os.fchmod(self.fd, stat.S_IMODE(status.st_mode))
        except PermissionError:
            return False
        return True

    def _rename(self) -> bool:
        try:
            self.path.replace(self._target)
        except OSError as error:
            if error.errno in _NO_RENAME and self._target.is_file():
                return False
            raise
        fsync_dir(self._target.parent)
        return True


@contextlib.contextmanager
def _temporary_file(target: Path) -> Iterator[_TemporaryFile]:
    real = Path(os.path.realpath(target))
    name = os.fsencode(real.name)[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    path = real.with_name(f".{name}.new")
    while (fd := _create_locked(path)) is None:
        pass  # leftovers of a killed process are deleted
    temp = _TemporaryFile(fd, path, real)
    try:
        yield temp
    except BaseException:
        temp.discard()
        raise
    finally:
        os.close(fd)


def _create_locked(path: Path) -> int | None:
    """Create and lock a file; None: call again, a file of this name that a killed process left was deleted.

    Raises StorageError while another process has it locked.
    """
    try:
        fd = os.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        _delete_abandoned(path)
        return None
    if _lock(fd, path):
        return fd
    os.close(fd)
    return None


def _delete_abandoned(path: Path) -> None:
    try:
        fd = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        return
    try:
        if _lock(fd, path):
            for suffix in _SUFFIXES:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> bool:
    """Lock an open file; False if it is no longer the one with this name."""
    try:
        locked = try_lock_file(fd, path)
    except StorageError:
        locked = True  # the file system has no locks: replacements at the same time are not noticed
    if not locked:
        raise StorageError(f"{path}: another process is writing this file", "Wait for its end, or use another name.")
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _is_written_directly(target: Path) -> bool:
    """Whether `target` cannot be replaced by a rename. Raises OSError, also if it exists and may not be written."""
    if Path(os.path.abspath(target)).parts[:2] in _DIRECT_FOLDERS:  # noqa: PTH100 - links are not resolved
        return True
    try:
        status = target.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode):
        return True
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return not os.access(Path(os.path.realpath(target)).parent, os.W_OK)
