"""Opens the store of a data dir: its SQLite files, or a schema of PostgreSQL."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_engine.errors import UsageError
from crawl_engine.runtime.disk_space import is_full
from crawl_engine.runtime.extras import install_hint
from crawl_engine.store.db.database import BUSY_SECONDS as BUSY_SECONDS
from crawl_engine.store.db.database import Database as Database
from crawl_engine.store.db.database import id_list as id_list
from crawl_engine.store.db.database import json_row as json_row
from crawl_engine.store.db.database import placeholders as placeholders
from crawl_engine.store.db.database import source_states as source_states
from crawl_engine.store.db.file_header import OLDEST_NUMBER, SCHEMA_NUMBER
from crawl_engine.store.db.location import Location, read_location
from crawl_engine.store.db.retry_busy import DatabaseBusy as DatabaseBusy
from crawl_engine.store.db.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from crawl_engine.store.db.postgres import PostgresDatabase


def connect(
    path: Path,
    *,
    durable: bool = True,
    read_only: bool = False,
    immutable: bool = False,
    busy_seconds: float = BUSY_SECONDS,
    small_cache: bool = False,
) -> Database:
    """Open crawl.db or pages.db of a data dir, or its place in PostgreSQL; the arguments are `SqliteDatabase.open`'s.

    Raises StorageError, DatabaseBusy.
    """
    location = read_location(path.parent)
    if location is not None:
        return connect_postgres(location, path, durable=durable, busy_seconds=busy_seconds)
    open_file = partial(
        SqliteDatabase.open,
        path,
        durable=durable,
        read_only=read_only,
        busy_seconds=busy_seconds,
        small_cache=small_cache,
    )
    db = open_file(immutable=immutable)
    if not OLDEST_NUMBER <= db.user_version < SCHEMA_NUMBER:
        return db
    from crawl_engine.store.db.migrate import migrate_or_copy

    return migrate_or_copy(
        db, lambda: open_file(immutable=immutable and has_no_wal(path)), read_only=read_only or immutable
    )


def connect_postgres(
    location: Location, path: Path, *, durable: bool = True, busy_seconds: float = BUSY_SECONDS
) -> "PostgresDatabase":
    """The place of crawl.db or pages.db in PostgreSQL; connects at the first use. Raises UsageError without psycopg."""
    try:
        from crawl_engine.store.db.postgres import PostgresDatabase
    except ImportError as error:
        raise UsageError(
            f"{path.parent}: its store in PostgreSQL needs psycopg", f"Install it: {install_hint('postgresql')}"
        ) from error
    return PostgresDatabase(location, path, durable=durable, busy_seconds=busy_seconds)


def connect_for_reading(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Open crawl.db or pages.db so that reading it leaves no write-ahead log behind, where that is possible."""
    return connect(path, read_only=True, immutable=has_no_wal(path), busy_seconds=busy_seconds)


def has_no_wal(path: Path) -> bool:
    """Whether a database has no write-ahead log: no process has it open, and the file itself is complete."""
    return not path.with_name(f"{path.name}-wal").exists()


def is_immutable(path: Path) -> bool:
    """Whether a database is read as an unchanging file: no process has it open, and we can create no log beside it."""
    return path.exists() and has_no_wal(path) and (not os.access(path.parent, os.W_OK) or is_full(path.parent))
