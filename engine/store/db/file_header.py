"""Tells our databases by the numbers in their first bytes, without opening them in SQLite."""

import contextlib
from pathlib import Path

from engine.errors import StorageError, UsageError

CRAWL, PAGES = "crawl.db", "pages.db"
APPLICATION_ID = 0x63776C63
"""`PRAGMA application_id` of our databases."""
SCHEMA_NUMBER = 28
"""`PRAGMA user_version` of our databases. Raise it by one with each change of `schema.sql` or `pages.sql`."""

SQLITE_MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100


class OtherDatabase(UsageError):
    """The database is of another program, or of an unreleased version of this one."""


def check_numbers(path: Path, header: bytes) -> None:
    """Raise OtherDatabase if this is the header of a database that is not ours, or has another schema."""
    numbers = int.from_bytes(header[68:72]), int.from_bytes(header[60:64])
    if header.startswith(SQLITE_MAGIC) and numbers != (APPLICATION_ID, SCHEMA_NUMBER):
        raise OtherDatabase(
            f"{path}: of another program or an unreleased version",
            "Nothing was changed. Use another --data directory.",
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
