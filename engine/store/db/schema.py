"""Creating and migrating the database files. The only room that changes tables."""

import contextlib
import time
from functools import partial
from pathlib import Path

from engine.errors import CrawlError, StorageError
from engine.store.db.connector import Database, has_no_wal, sqlite3
from engine.store.db.migrations import check_version, migrate
from engine.store.db.retry_busy import retry_busy

CRAWL, PAGES = "crawl.db", "pages.db"
_SQL_DIR = Path(__file__).parent
_MAGIC = b"SQLite format 3\0"

MIGRATIONS: dict[str, tuple[str, ...]] = {CRAWL: ("schema.sql", "schema-2.sql"), PAGES: ("pages.sql", "pages-2.sql")}
"""Scripts by file, applied in order; `PRAGMA user_version` says how many were."""
_PAGE_SIZES = {CRAWL: 4096, PAGES: 16384}
"""A stored page has 4 kB as a rule: larger ones of SQLite's keep it in one piece. It takes a tenth less of the disk."""

_SETTLE_SECONDS, _SETTLE_RETRY_SECONDS = 0.3, 0.02
"""A process that makes a file, or closes it as the last one, is done within the first."""


def migrate_databases(folder: Path) -> None:
    """Create or migrate the databases of a data dir; several processes may call it at once.

    Raises StorageError on a file that is damaged, not ours, or newer than this program.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old", "Use a Python whose sqlite3 has SQLite 3.51.3 or newer."
        )
    for name, scripts in MIGRATIONS.items():
        _check_file_retrying(folder / name, scripts)  # all of them, before one is touched
    for name, scripts in MIGRATIONS.items():
        path = folder / name
        database = Database.open(path, page_size=_PAGE_SIZES[name])
        try:
            retry_busy(
                partial(migrate, database, _read_scripts(scripts)), seconds=_SETTLE_SECONDS, pause=_SETTLE_RETRY_SECONDS
            )
        finally:
            database.close()
        path.chmod(0o600)


def _check_file_retrying(path: Path, scripts: tuple[str, ...]) -> None:
    """Refuse only what stays as it is: who reads without a lock while another closes the file may see half of it."""
    settled = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return _check_file(path, scripts)
        except StorageError:
            if time.monotonic() >= settled:
                raise
            time.sleep(_SETTLE_RETRY_SECONDS)


def _check_file(path: Path, scripts: tuple[str, ...]) -> None:
    """Raise StorageError where a file cannot be a database of ours, or must not be written; changes nothing."""
    try:
        with path.open("r+b") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "Check its permissions, and those of its disk.") from error
    if not head:
        return
    damaged = StorageError(
        f"{path}: damaged (file is not a database)",
        "Nothing was changed. Restore it from a copy, or use another --data directory.",
    )
    if head != _MAGIC:
        raise damaged
    with contextlib.suppress(FileNotFoundError):
        if path.with_name(f"{path.name}-wal").stat().st_size:
            return  # what lies in the log counts; only who may write can read it
    database = Database.open(path, immutable=True)
    try:
        check_version(database, len(scripts))
        for (table,) in database.all("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            database.one(f'SELECT 1 FROM "{table.replace(chr(34), chr(34) * 2)}" LIMIT 1')
        pages, size = database.value("PRAGMA page_count"), database.value("PRAGMA page_size")
        if path.stat().st_size < pages * size:
            raise StorageError(f"{path}: damaged (cut short)", damaged.remedy)
    finally:
        database.close()


def _read_scripts(names: tuple[str, ...]) -> dict[str, str]:
    return {name: (_SQL_DIR / name).read_text("utf-8") for name in names}


def checkpoint_wal(folder: Path) -> None:
    """At the end of a run: write what still lies in the logs beside the databases into them.

    The last to close a database does so by itself, but for those who may only read, such as a node's clerk.
    """
    for name in MIGRATIONS:
        with contextlib.suppress(CrawlError):
            if not has_no_wal(folder / name):
                Database.open(folder / name, busy_seconds=0.5).close()


def has_schema(database: Database) -> bool:
    """Whether the tables are there; another process may be making them right now."""
    return bool(database.value("SELECT count(*) FROM sqlite_schema WHERE name = 'runs'"))
