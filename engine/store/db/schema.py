"""Creates, checks and migrates the database files of a data dir."""

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

MIGRATIONS: dict[str, tuple[str, ...]] = {
    CRAWL: ("schema.sql", *(f"schema-{number}.sql" for number in range(2, 14))),
    PAGES: ("pages.sql", "pages-2.sql"),
}
"""Scripts of each file, applied in order; `PRAGMA user_version` is the number of those applied."""
_PAGE_SIZES = {CRAWL: 4096, PAGES: 16384}
"""A stored web page takes about 4 kB: larger database pages hold it in one piece and save a tenth of the disk."""

_SETTLE_SECONDS, _SETTLE_RETRY_SECONDS = 0.3, 0.02
"""Another process that is creating or closing the file finishes within the first."""


def migrate_databases(folder: Path) -> None:
    """Create or migrate the databases of a data dir; several processes may call it at once.

    Raises DatabaseBusy, and StorageError if a file is damaged, not ours, or newer than this program.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old", "Use a Python whose sqlite3 has SQLite 3.51.3 or newer."
        )
    for name, scripts in MIGRATIONS.items():
        _check_file_retrying(folder / name, scripts)  # check all files before changing any
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
    """Check a file until it is good or a short time is over: without a lock, a file being closed may look damaged."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return _check_file(path, scripts)
        except StorageError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_SETTLE_RETRY_SECONDS)


def _check_file(path: Path, scripts: tuple[str, ...]) -> None:
    """Raise StorageError if a file is not a usable database of ours or cannot be written; changes nothing."""
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
            return  # the log holds newer content, and only a writer can read it
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
    """At the end of a run: copy the write-ahead logs into the databases and delete them.

    SQLite does so when the last connection closes, unless that one is read-only, as a node's are.
    """
    for name in MIGRATIONS:
        with contextlib.suppress(CrawlError):
            if not has_no_wal(folder / name):
                Database.open(folder / name, busy_seconds=0.5).close()


def has_schema(database: Database) -> bool:
    """Whether crawl.db has its tables; another process may be creating them.

    Raises StorageError if it is newer than this program.
    """
    if not database.value("SELECT count(*) FROM sqlite_schema WHERE name = 'runs'"):
        return False
    check_version(database, len(MIGRATIONS[CRAWL]))
    return True


def require_current(database: Database) -> None:
    """Raise StorageError if crawl.db is of an earlier schema: what is read of it here may not be there yet."""
    newest = len(MIGRATIONS[CRAWL])
    version = check_version(database, newest)
    if version < newest:
        raise StorageError(
            f"{database.path}: made by an older crawl-console (schema {version} of {newest})",
            "The next `crawl-console run` updates it; until then, `jobs`, `runs` and `export` read it.",
        )
