"""Returns the free space of a database to the disk; a kill leaves it as it was, or as it will be."""

import os
from pathlib import Path
from typing import NamedTuple

from crawl_engine.errors import StorageError, megabytes
from crawl_engine.runtime.disk_space import free_bytes
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.sqlite import SqliteDatabase

_CHECKPOINT_SECONDS = 10.0
_MARGIN = 1_000_000


class Shrunk(NamedTuple):
    """The bytes of a database file, before and after."""

    before: int
    after: int


def vacuum(path: Path) -> Shrunk:
    """Rewrite a database without its free space. Nothing else may write to it meanwhile; readers may read.

    Raises StorageError without enough free disk space, DatabaseBusy.
    """
    db = SqliteDatabase.open(path)
    try:
        db.checkpoint(_CHECKPOINT_SECONDS)
        before = path.stat().st_size
        if not db.free_bytes:
            return Shrunk(before, before)
        _check_space(path, before - db.free_bytes)
        os.environ["SQLITE_TMPDIR"] = str(path.parent.absolute())  # the copy is unlinked as soon as it is open
        retry_busy(lambda: db.execute("VACUUM"))
        if not db.checkpoint(_CHECKPOINT_SECONDS):
            raise StorageError(
                f"{path}: a process has been reading for a long time", "It shrinks as soon as that process ends."
            )
        return Shrunk(before, path.stat().st_size)
    finally:
        db.close()


def _check_space(path: Path, used: int) -> None:
    """SQLite writes a copy, and then its pages to the write-ahead log."""
    free, needed = free_bytes(path.parent), 2 * used + _MARGIN
    if free is not None and free < needed:
        raise StorageError(
            f"{path}: {megabytes(free)} are free on the disk, {megabytes(needed)} are needed",
            "Nothing was changed. Free some space, and run the command again.",
        )
