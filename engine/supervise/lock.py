"""The lock of a data dir. Standard library only, so that it is taken before heavy imports; it dies with its holder."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LockHeld, StorageError
from engine.runtime.process_identity import identity_of

LOCK_NAME = "supervisor.lock"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds, or last held, the lock."""

    pid: int
    identity: str
    run: str


class Lock:
    """Held from `take` until `release`, or until the process ends in whatever way."""

    def __init__(self, file: int, path: Path) -> None:
        self._fd = file
        self._path = path

    @classmethod
    def acquire(cls, folder: Path) -> "Lock":
        """Make the data dir where it is missing, and lock it at once or not at all.

        Raises LockHeld naming the holder, StorageError where the folder cannot be used.
        """
        path = folder / LOCK_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"{folder}: {error.strerror}", "Choose another folder with --data, or mend its permissions."
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise _lock_held_error(folder) from None
        lock = cls(file, path)
        lock.write_holder("")
        return lock

    def write_holder(self, run: str) -> None:
        """Write who holds the lock, and for which run."""
        text = json.dumps({"pid": os.getpid(), "identity": identity_of(os.getpid()), "run": run}).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._fd)


def read_holder(folder: Path) -> LockHolder | None:
    """Who wrote the lock file last; None where nobody did."""
    try:
        told = json.loads((folder / LOCK_NAME).read_bytes())
        return LockHolder(int(told["pid"]), str(told["identity"]), str(told["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lock_held_error(folder: Path) -> LockHeld:
    """The refusal; the holder may be writing its name right now, so it is given a moment."""
    deadline = time.monotonic() + 0.5
    while True:
        told = read_holder(folder)
        if told is not None and identity_of(told.pid) == told.identity:
            run = f", run {told.run}" if told.run else ""
            what = f"{folder}: held by another supervisor (pid {told.pid}{run})"
            break
        if time.monotonic() >= deadline:
            what = f"{folder}: held by another supervisor"
            break
        time.sleep(0.02)
    return LockHeld(
        what, "Look at it with `crawl-console status`, stop it with `crawl-console cancel`, or use another --data."
    )
