"""Tells our databases by the numbers in their first bytes, without opening them in SQLite."""

import contextlib
from pathlib import Path

from crawl_engine.errors import StorageError, UsageError

CRAWL, PAGES = "crawl.db", "pages.db"
LOCK_NAME = "supervisor.lock"
"""Whoever holds this file is alone in the data dir."""
APPLICATION_ID = 0x63776C63
"""`PRAGMA application_id` of our databases."""
OLDEST_NUMBER, SCHEMA_NUMBER = 28, 32
"""`PRAGMA user_version`: of the oldest databases that are migrated (crawl_engine.store.db.migrate), and of ours."""

SQLITE_MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100


class OtherDatabase(UsageError):
    """The database is of another program, or of a version of this one that it cannot read."""


def check_numbers(path: Path, header: bytes) -> None:
    """Raise OtherDatabase if this is the header of a database that is not ours, and cannot be migrated."""
    application, number = int.from_bytes(header[68:72]), int.from_bytes(header[60:64])
    if not header.startswith(SQLITE_MAGIC) or (
        application == APPLICATION_ID and OLDEST_NUMBER <= number <= SCHEMA_NUMBER
    ):
        return
    if application != APPLICATION_ID:
        raise OtherDatabase(f"{path}: of another program", "Nothing was changed. Use another --data directory.")
    raise other_format(str(path), number, "Use that version, or another --data directory.")


def other_format(name: str, number: int, remedy: str) -> OtherDatabase:
    """The error for a database of another format than ours."""
    age = "a newer" if number > SCHEMA_NUMBER else "an older"
    return OtherDatabase(
        f"{name}: made by {age} version of crawl-console (format {number}; this one has {SCHEMA_NUMBER})",
        f"Nothing was changed. {remedy}",
    )


def check_data_dir(folder: Path) -> None:
    """Raise OtherDatabase if a data dir has a database that this program cannot use, StorageError if it is a file."""
    with contextlib.suppress(OSError):
        if folder.exists() and not folder.is_dir():
            raise StorageError(f"{folder}: a file, not a folder", "Name the folder of the data with --data.")
    for name in (CRAWL, PAGES):
        # whoever opens the file says what is wrong
        with contextlib.suppress(OSError), (folder / name).open("rb") as file:
            check_numbers(folder / name, file.read(HEADER_BYTES))
