"""Where the store of a data dir is: in PostgreSQL if its file `store` says so, else in SQLite files."""

import os
from pathlib import Path

from msgspec import DecodeError, Struct, ValidationError, json

from crawl_engine.errors import StorageError

STORE_FILE = "store"


class Location(Struct, frozen=True):
    """A crawl in a PostgreSQL database."""

    url: str
    """As libpq takes it; may hold a password."""
    project: str
    """The schema that holds the crawl."""


def read_location(folder: Path) -> Location | None:
    """The PostgreSQL database of a data dir; None: its store is in SQLite files. Raises StorageError."""
    path = folder / STORE_FILE
    try:
        return json.decode(path.read_bytes(), type=Location)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, DecodeError, ValidationError) as error:
        raise StorageError(
            f"{path}: {error}", "Delete it, and name the store again: `run --store URL --project NAME`."
        ) from error


def write_location(folder: Path, location: Location, *, new: bool = False) -> None:
    """Have the data dir belong to this database. Only its owner can read the file: the URL may hold a password.

    Raises FileExistsError if it is not `new`, OSError.
    """
    from tempfile import mkstemp  # few processes write the file

    path = folder / STORE_FILE
    handle, name = mkstemp(prefix=f"{STORE_FILE}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.encode(location))
        if new:
            path.hardlink_to(name)
        else:
            Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
