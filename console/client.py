"""A data dir as commands open it: its database and its latest run, and whether anyone governs it. Prints nothing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError
from engine.runtime.process_identity import lives
from engine.store.db.connector import BUSY_SECONDS, Busy, Database, at_rest
from engine.store.db.schema import CRAWL, prepared
from engine.store.tables import runs, supervisors
from engine.store.tables.runs import Run

_PATIENCE = 5.0


@contextlib.contextmanager
def opened(data: Path, *, write: bool = False) -> Iterator[tuple[Database, Run]]:
    """The database and the latest run. Raises UsageError where nothing was crawled, StorageError, Busy."""
    path = data / CRAWL
    nothing = UsageError(f"{data}: no run yet", "Start one with `crawl-console run`, or give --data.")
    if not path.exists():
        raise nothing
    still = not write and frozen(path)
    db = Database.open(path, read_only=not write, immutable=still, busy_seconds=BUSY_SECONDS if write else _PATIENCE)
    try:
        with _unchanged(path) if still else contextlib.nullcontext():
            run = runs.latest(db) if prepared(db) else None
            if run is None:
                raise nothing
            yield db, run
    finally:
        db.close()


def crawled(data: Path) -> Path:
    """Where the database of a data dir lies. Raises UsageError where nothing was crawled."""
    path = data / CRAWL
    if not path.exists():
        raise UsageError(f"{data}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    return path


def frozen(path: Path) -> bool:
    """Whether a database is read as it lies there: nobody has it open, and we may make no log beside it."""
    return at_rest(path) and not os.access(path.parent, os.W_OK)


@contextlib.contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    """Read a frozen database. Raises Busy where a crawl began meanwhile: what was read may be torn."""
    before = path.stat()
    try:
        yield
    finally:
        now = path.stat()
        if not at_rest(path) or (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size):
            raise Busy(f"{path}: a crawl began while it was read", "Ask again.")


def governed(db: Database) -> bool:
    """Whether a supervisor of the data dir is alive."""
    office = supervisors.current(db)
    return office is not None and lives(office.identity)
