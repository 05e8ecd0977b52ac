"""The lock of a data dir. Imports little, because it is taken before heavy imports."""

import contextlib
import json
import os
import stat
import time
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import LockHeld, StorageError
from crawl_engine.runtime.file_lock import try_lock_file
from crawl_engine.runtime.private_file import open_private
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.file_header import LOCK_NAME

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class LockHolder(Struct, frozen=True):
    """Who holds, or last held, the lock."""

    pid: int
    identity: str
    run: str


class Lock:
    """Held from `acquire` until `release`; the kernel releases it when the process ends in any way."""

    def __init__(self, fd: int, path: Path, previous: str | None = None) -> None:
        """`previous`: the identity of the process that held it before."""
        self.previous = previous
        self._fd = fd
        self._path = path

    @classmethod
    def acquire(cls, folder: Path) -> "Lock":
        """Create the data dir if it is missing, and lock it without waiting.

        Raises LockHeld, which names the holder, or StorageError if the folder cannot be used.
        """
        path = folder / LOCK_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _keep_private(folder)
            fd = open_private(path, os.O_RDWR)
        except OSError as error:
            fix = ", or fix its permissions" if isinstance(error, PermissionError) else ""
            raise StorageError(f"{folder}: {error.strerror}", f"Choose another folder with --data{fix}.") from error
        try:
            locked = try_lock_file(fd, path)
        except StorageError:
            os.close(fd)
            raise
        if not locked:
            os.close(fd)
            raise _lock_held_error(folder)
        holder = read_holder(folder)
        lock = cls(fd, path, None if holder is None else holder.identity)
        lock.write_holder("")
        return lock

    def write_holder(self, run: str) -> None:
        """Write the identity of this process and its run to the lock file."""
        text = json.dumps({"pid": os.getpid(), "identity": identity_of(os.getpid()), "run": run}).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        os.close(self._fd)


def check_private(folder: Path) -> os.stat_result:
    """Whose a data dir is, and who may enter it. Raises StorageError where others may replace its files, OSError.

    A folder of root is accepted as it is: containers mount volumes so, and files have mode 0600.
    """
    status, user = folder.stat(), os.geteuid()
    if status.st_mode & _OTHERS and (status.st_mode & stat.S_ISVTX or (status.st_uid not in (0, user) and user)):
        whose = "that all users share" if status.st_mode & stat.S_ISVTX else f"of another user (uid {status.st_uid})"
        raise StorageError(f"{folder}: a folder {whose}", "Name a folder of your own with --data.")
    return status


def _keep_private(folder: Path) -> None:
    """Let no other user into a data dir. Raises as `check_private`."""
    status = check_private(folder)
    if status.st_mode & _OTHERS and os.geteuid() in (0, status.st_uid):
        with contextlib.suppress(PermissionError):  # a file system without modes
            folder.chmod(0o700)


def read_holder(folder: Path) -> LockHolder | None:
    """The process that wrote the lock file last; None if it cannot be read."""
    try:
        record = json.loads((folder / LOCK_NAME).read_bytes())
        return LockHolder(int(record["pid"]), str(record["identity"]), str(record["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _pause_of_holder(folder: Path) -> str:
    """What a full disk or data dir makes the holder wait for."""
    from crawl_engine.runtime.beat_file import SUPERVISOR_BEAT, read_beat

    beat = read_beat(folder / "beats" / SUPERVISOR_BEAT)
    return f", which is paused: {beat.now}" if beat is not None and beat.now else ""


def _lock_held_error(folder: Path) -> LockHeld:
    """The error that names the holder. Waits a moment, because the holder may be writing the file just now."""
    deadline = time.monotonic() + 0.5
    while True:
        holder = read_holder(folder)
        if holder is not None and identity_of(holder.pid) == holder.identity:
            who = f"supervisor (pid {holder.pid}, run {holder.run})" if holder.run else f"process (pid {holder.pid})"
            message = f"{folder}: held by another {who}{_pause_of_holder(folder)}"
            break
        if time.monotonic() >= deadline:
            message = f"{folder}: held by another process"
            break
        time.sleep(0.02)
    return LockHeld(
        message, "Look at it with `crawl-console status`, stop it with `crawl-console cancel`, or use another --data."
    )
