"""Creates and checks the database files of a data dir."""

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.store.db.connector import Database, connect_postgres, has_no_wal
from crawl_engine.store.db.file_header import CRAWL as CRAWL
from crawl_engine.store.db.file_header import HEADER_BYTES, SQLITE_MAGIC, check_numbers
from crawl_engine.store.db.file_header import PAGES as PAGES
from crawl_engine.store.db.location import read_location
from crawl_engine.store.db.migrate import migrate
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.sqlite import SqliteDatabase, sqlite3

SQL_DIR = Path(__file__).parent
_SCRIPTS = {CRAWL: ("schema.sql", "triggers.sql"), PAGES: ("pages.sql",)}
_PAGE_SIZES = {CRAWL: 4096, PAGES: 16384}
"""Larger database pages hold a stored web page in one piece and save disk space."""

_CHECKPOINT_SECONDS = 2.0
_SETTLE_SECONDS, _SETTLE_RETRY_SECONDS = 0.3, 0.02
"""Another process that is creating or closing the file finishes within the first."""


def open_databases(folder: Path, *, processes: int = 0) -> Database:
    """Create the databases that a data dir lacks; returns crawl.db. Several processes may call it at once.

    `processes`: how many will have connections to PostgreSQL.
    Raises DatabaseBusy, OtherDatabase, and StorageError if a file is damaged.
    """
    location = read_location(folder)
    if location is not None:
        postgres = connect_postgres(location, folder / CRAWL)
        postgres.create_tables()
        if processes:
            postgres.check_connections(processes)
        return postgres
    if sqlite3.sqlite_version_info < (3, 37):
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old", "Use a Python whose sqlite3 has SQLite 3.51.3 or newer."
        )
    for name in _SCRIPTS:
        _check_file_retrying(folder / name)  # check all files before changing any
    crawl = _open_created(folder, CRAWL)
    try:
        _open_created(folder, PAGES).close()
    except BaseException:
        crawl.close()
        raise
    return crawl


def _open_created(folder: Path, name: str) -> SqliteDatabase:
    database = SqliteDatabase.open(folder / name, creates=True, page_size=_PAGE_SIZES[name])
    try:
        create = partial(_create_tables, database, _SCRIPTS[name])
        retry_busy(create, seconds=_SETTLE_SECONDS, pause=_SETTLE_RETRY_SECONDS)
    except BaseException:
        database.close()
        raise
    return database


def _create_tables(database: SqliteDatabase, scripts: Sequence[str]) -> None:
    if database.has_tables():
        migrate(database)
        return
    with database.transaction():
        if not database.has_tables():
            for script in scripts:
                database.execute_script((SQL_DIR / script).read_text("utf-8"))


def _check_file_retrying(path: Path) -> None:
    """Check a file for a short time until it is good: while another process closes it, it may look damaged."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return _check_file(path)
        except StorageError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_SETTLE_RETRY_SECONDS)


def _check_file(path: Path) -> None:
    """Raise OtherDatabase, or StorageError if a file is damaged or cannot be written. Changes nothing."""
    try:
        with path.open("r+b") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "Check its permissions, and those of its disk.") from error
    if not header:
        return
    damaged = StorageError(
        f"{path}: damaged (file is not a database)",
        "Nothing was changed. Restore it from a copy, or use another --data directory.",
    )
    if not header.startswith(SQLITE_MAGIC):
        raise damaged
    check_numbers(path, header)
    with contextlib.suppress(FileNotFoundError):
        if path.with_name(f"{path.name}-wal").stat().st_size:
            return  # the log holds newer content, and only a writer can read it
    database = SqliteDatabase.open(path, immutable=True)
    try:
        for (table,) in database.all("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            database.one(f'SELECT 1 FROM "{table.replace(chr(34), chr(34) * 2)}" LIMIT 1')
        pages, size = database.value("PRAGMA page_count"), database.value("PRAGMA page_size")
        if path.stat().st_size < pages * size:
            raise StorageError(f"{path}: damaged (cut short)", damaged.remedy)
    finally:
        database.close()


def checkpoint_wal(folder: Path) -> None:
    """At the end of a run: copy the write-ahead logs into the databases, and empty them.

    SQLite deletes them when the last connection closes, unless that one is read-only, as a node's are. A viewer may
    keep the files; it delays this for a moment at most.
    """
    for name in _SCRIPTS:
        with contextlib.suppress(CrawlError):
            if not has_no_wal(folder / name):
                with contextlib.closing(SqliteDatabase.open(folder / name, busy_seconds=0.5)) as database:
                    database.checkpoint(_CHECKPOINT_SECONDS)
