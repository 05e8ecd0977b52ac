"""A data dir as commands open it: its database and its latest run, and whether anyone governs it. Prints nothing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError
from engine.identity import lives
from engine.store import runs, supervisors
from engine.store.connector import BUSY_SECONDS, Database
from engine.store.runs import Run
from engine.store.schema import CRAWL, prepared

_PATIENCE = 5.0


@contextlib.contextmanager
def opened(data: Path, *, write: bool = False) -> Iterator[tuple[Database, Run]]:
    """The database and the latest run. Raises UsageError where nothing was crawled, StorageError."""
    path = data / CRAWL
    nothing = UsageError(f"{data}: no run yet", "Start one with `crawl-console run`, or give --data.")
    if not path.exists():
        raise nothing
    db = Database.open(path, read_only=not write, busy_seconds=BUSY_SECONDS if write else _PATIENCE)
    try:
        run = runs.latest(db) if prepared(db) else None
        if run is None:
            raise nothing
        yield db, run
    finally:
        db.close()


def governed(db: Database) -> bool:
    """Whether a supervisor of the data dir is alive."""
    office = supervisors.current(db)
    return office is not None and lives(office.identity)
