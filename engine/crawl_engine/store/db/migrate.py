"""Migrates databases of older formats: a script of SQL for each step, in the folder `steps`."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from crawl_engine.errors import CrawlError
from crawl_engine.runtime.file_lock import try_lock_file
from crawl_engine.runtime.private_file import open_private
from crawl_engine.store.db.file_header import CRAWL, LOCK_NAME, PAGES, SCHEMA_NUMBER, OtherDatabase
from crawl_engine.store.db.sqlite import SqliteDatabase

_STEPS = Path(__file__).parent / "steps"
_CHECKPOINT_SECONDS = 2.0


def read_script(name: str, number: int) -> str:
    """The statements that bring a database from this number to ours; empty: its tables are the same."""
    stem = name.removesuffix(".db")
    paths = [_STEPS / f"{stem}_{step}.sql" for step in range(number + 1, SCHEMA_NUMBER + 1)]
    return "".join(path.read_text("utf-8") for path in paths if path.exists())


def migrate(db: SqliteDatabase) -> None:
    """Bring a database to our format in one transaction. Raises DatabaseBusy, StorageError."""
    with db.transaction():
        number = db.user_version
        if number >= SCHEMA_NUMBER:
            return
        db.execute_script(read_script(db.path.name, number))
        db.execute(f"PRAGMA user_version = {SCHEMA_NUMBER}")
    db.checkpoint(_CHECKPOINT_SECONDS)  # the first bytes of the file tell its format


def migrate_or_copy(db: SqliteDatabase, reopen: Callable[[], SqliteDatabase], *, read_only: bool) -> SqliteDatabase:
    """In place of a connection to a database of an older format: one to the migrated database, or to a copy of it.

    It is migrated in its place while no supervisor holds the data dir. Raises OtherDatabase for a writer, StorageError.
    """
    if not read_script(db.path.name, db.user_version):  # its tables are the same
        return db
    with contextlib.closing(db):
        if _migrate_alone(db.path.parent):
            return reopen()
        if not read_only:
            raise OtherDatabase(
                f"{db.path}: a supervisor of an older version of crawl-console holds it, or it cannot be written",
                "Nothing was changed. Wait for its end, or end it with SIGTERM; then run this again.",
            )
        return _copy(db)


def _migrate_alone(folder: Path) -> bool:
    """Migrate the databases of a data dir; False: a supervisor holds it, or it cannot be written."""
    with contextlib.suppress(OSError, CrawlError), contextlib.ExitStack() as stack:
        fd = open_private(folder / LOCK_NAME, os.O_RDWR)
        stack.callback(os.close, fd)
        if not try_lock_file(fd, folder / LOCK_NAME):
            return False
        for name in (PAGES, CRAWL):
            if (folder / name).exists():
                migrate(stack.enter_context(contextlib.closing(SqliteDatabase.open(folder / name))))
        return True
    return False


def _copy(db: SqliteDatabase) -> SqliteDatabase:
    """A temporary copy in our format, deleted when it is closed."""
    handle, name = tempfile.mkstemp(prefix="crawl-console-", suffix=".db")
    os.close(handle)
    copy = db.copy_aside(Path(name))
    try:
        migrate(copy)
        copy.execute("PRAGMA query_only = 1")
    except BaseException:
        copy.close()
        raise
    return copy
