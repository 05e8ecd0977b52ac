"""A data dir as commands open it: its database and its latest run, and whether anyone governs it. Prints nothing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError
from engine.runtime.process_identity import is_process_alive
from engine.store.db.connector import BUSY_SECONDS, Database, DatabaseBusy, has_no_wal
from engine.store.db.schema import CRAWL, has_schema
from engine.store.tables import runs, supervisors
from engine.store.tables.runs import Run

_READ_BUSY_SECONDS = 5.0


@contextlib.contextmanager
def open_latest_run(data: Path, *, write: bool = False) -> Iterator[tuple[Database, Run]]:
    """The database and the latest run. Raises UsageError where nothing was crawled, StorageError, Busy."""
    path = data / CRAWL
    nothing = UsageError(f"{data}: no run yet", "Start one with `crawl-console run`, or give --data.")
    if not path.exists():
        raise nothing
    still = not write and is_immutable(path)
    db = Database.open(
        path, read_only=not write, immutable=still, busy_seconds=BUSY_SECONDS if write else _READ_BUSY_SECONDS
    )
    try:
        with _check_unchanged(path) if still else contextlib.nullcontext():
            run = runs.latest(db) if has_schema(db) else None
            if run is None:
                raise nothing
            yield db, run
    finally:
        db.close()


def require_database_path(data: Path) -> Path:
    """Where the database of a data dir lies. Raises UsageError where nothing was crawled."""
    path = data / CRAWL
    if not path.exists():
        raise UsageError(f"{data}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    return path


def is_immutable(path: Path) -> bool:
    """Whether a database is read as it lies there: nobody has it open, and we may make no log beside it."""
    return has_no_wal(path) and not os.access(path.parent, os.W_OK)


@contextlib.contextmanager
def _check_unchanged(path: Path) -> Iterator[None]:
    """Read a frozen database. Raises Busy where a crawl began meanwhile: what was read may be torn."""
    before = path.stat()
    try:
        yield
    finally:
        now = path.stat()
        if not has_no_wal(path) or (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size):
            raise DatabaseBusy(f"{path}: a crawl began while it was read", "Ask again.")


def has_supervisor(db: Database) -> bool:
    """Whether a supervisor of the data dir is alive."""
    office = supervisors.current(db)
    return office is not None and is_process_alive(office.identity)
