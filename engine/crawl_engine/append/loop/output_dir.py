"""The output folder of a run: locked by one appender; and the links `current` and `latest`."""

import contextlib
import errno
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path

from crawl_engine.append.formats.file_writer import fsync_dir
from crawl_engine.model.output_type import is_object
from crawl_engine.runtime.file_lock import try_lock_file
from crawl_engine.runtime.private_file import open_private

CURRENT = "current"
"""The link to the newest run."""
LATEST = "latest"
"""The link to the last DONE run; before the first, to the newest."""
_LOCK = ".lock"
_RETRY_SECONDS = 1.0

_log = logging.getLogger("appender")


class OutputDir:
    """`DATA/output/<run id>`. The kernel releases the lock when its process ends."""

    def __init__(self, data: Path, run: str, done: Iterable[str] = ()) -> None:
        """`done`: the ids of DONE runs, the newest first."""
        self.path = data.absolute() / "output" / run
        self._done = tuple(done)
        self._lock_fd: int | None = None
        self._problem = ""
        self._retry_at = 0.0

    def try_lock(self) -> bool:
        """Create the folder if it is missing, and lock it; False while another process holds the lock.

        Raises OSError if it cannot be created, StorageError where the file system has no locks.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = self.path / _LOCK
        fd = open_private(lock_path, os.O_RDWR)
        locked = False
        try:
            locked = try_lock_file(fd, lock_path)
        finally:
            if not locked:
                os.close(fd)
        if locked:
            self.close()
            self._lock_fd = fd
        return locked

    def repair(self) -> None:
        """Create missing parts: the folder with its lock, and the links. Cheap if nothing is missing; needs the lock.

        A failure is logged once, and tried again a second later.
        """
        if self._lock_fd is None or time.monotonic() < self._retry_at:
            return
        try:
            if not self._is_lock_in_place(self._lock_fd):
                self.try_lock()
            folder = self.path.parent
            link_output(folder, CURRENT, self.path.name)
            done = next((run for run in self._done if (folder / run).is_dir()), self.path.name)
            link_output(folder, LATEST, done)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if str(error) != self._problem:
                _log.warning("the links beside %s cannot be made: %s", self.path, error)
            self._problem = str(error)
        else:
            self._problem = ""

    def close(self) -> None:
        """Release the lock; may be called again."""
        fd, self._lock_fd = self._lock_fd, None
        if fd is not None:
            os.close(fd)

    def _is_lock_in_place(self, fd: int) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(os.fstat(fd), (self.path / _LOCK).stat())
        return False


def link_output(folder: Path, name: str, run: str) -> None:
    """Point a link in the folder of all outputs to a run's, atomically. Raises OSError; a file of that name stays."""
    link = folder / name
    with contextlib.suppress(OSError):
        if link.readlink() == Path(run):
            return
    if link.exists() and not link.is_symlink():
        raise FileExistsError(errno.EEXIST, "is not a symbolic link; move it away", str(link))
    temp_path = link.with_name(f".{name}.new")
    temp_path.unlink(missing_ok=True)
    temp_path.symlink_to(run, target_is_directory=True)
    try:
        temp_path.replace(link)
    except OSError:
        temp_path.unlink(missing_ok=True)
        raise
    fsync_dir(folder)


def present_path(recorded: str, data: Path, run: str) -> str:
    """Where an output of a run is now: in its folder, though the data dir was copied or moved since."""
    if is_object(recorded):
        return recorded
    _, in_folder, name = recorded.rpartition(f"/output/{run}/")
    return str(data.absolute() / "output" / run / name) if in_folder else recorded
