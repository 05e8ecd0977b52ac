"""Which store a data dir has: SQLite's files, or the project in PostgreSQL that the settings name."""

import secrets
from pathlib import Path

from crawl_engine.errors import StorageError, UsageError
from crawl_engine.store.db.connector import connect_postgres
from crawl_engine.store.db.file_header import CRAWL, check_data_dir
from crawl_engine.store.db.location import STORE_FILE, Location, read_location, write_location


def has_store(folder: Path, name: str = CRAWL) -> bool:
    """Whether a data dir has this database, as a file or in PostgreSQL. Raises OtherDatabase, StorageError."""
    check_data_dir(folder)
    try:
        if (folder / name).exists() or (folder / STORE_FILE).exists():
            return True
        if folder.exists():
            next(folder.iterdir(), None)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Fix its permissions, or use another --data.") from error
    return False


def claim_store(folder: Path, url: str | None, project: str | None, *, draws: bool) -> Location | None:
    """Have a data dir belong to the store of the settings; returns its location if that is a new one.

    `draws`: whether to name a project if there is no name yet. A URL that changes replaces the former one. Raises
    UsageError if the data dir belongs to another store; StorageError, DatabaseBusy if the server cannot be used.
    """
    kept = read_location(folder)
    if kept is not None and project not in (None, kept.project):
        raise UsageError(
            f"{folder}: belongs to the project {kept.project}, not to {project}",
            "Leave out the project, or use another --data directory for it.",
        )
    if url is None:
        if kept is None and project is not None:
            raise UsageError(f"project {project}: no store has it", "Name its database: --store postgresql://...")
        return None
    if kept is None and (folder / CRAWL).exists():
        raise UsageError(
            f"{folder}: its crawl is in SQLite files, not in PostgreSQL",
            "Use another --data directory, or copy the crawl: `crawl-console store copy`.",
        )
    if kept is None and project is None and not draws:
        raise UsageError(
            f"{folder}: the store is named, but not the project in it",
            "Give its name: CRAWL_PROJECT, --set project=NAME, or `project` in crawl.toml.",
        )
    location = Location(url, project or (kept.project if kept is not None else f"crawl_{secrets.token_hex(4)}"))
    if location == kept:
        return None
    connect_postgres(location, folder / CRAWL).has_tables()  # a wrong URL must not stay
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_location(folder, location, new=kept is None)
    except FileExistsError:  # another process was faster
        return claim_store(folder, url, project, draws=draws)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Choose another folder with --data.") from error
    return location
