"""Creating and migrating the database files. The only room that changes tables."""

from pathlib import Path

from engine.errors import StorageError
from engine.store.connector import Database, sqlite3

CRAWL, PAGES = "crawl.db", "pages.db"
_ROOM = Path(__file__).parent

MIGRATIONS: dict[str, tuple[str, ...]] = {CRAWL: ("schema.sql",), PAGES: ("pages.sql",)}
"""Scripts by file, applied in order; `PRAGMA user_version` says how many were."""


def prepare(folder: Path) -> None:
    """Create or migrate the databases of a data dir; several processes may call it at once.

    Raises StorageError on a file that is damaged, not ours, or newer than this program.
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old", "Use a Python whose sqlite3 has SQLite 3.51.3 or newer."
        )
    for name, scripts in MIGRATIONS.items():
        path = folder / name
        database = Database.open(path)
        try:
            _migrate(database, scripts)
        finally:
            database.close()
        path.chmod(0o600)


def _migrate(database: Database, scripts: tuple[str, ...]) -> None:
    if database.value("PRAGMA user_version") == len(scripts):
        return
    with database.transaction():
        version = int(database.value("PRAGMA user_version"))
        if version > len(scripts):
            raise StorageError(
                f"{database.path}: made by a newer crawl-console (schema {version}, this one knows {len(scripts)})",
                "Update crawl-console, or use another --data directory.",
            )
        if version == 0 and database.value("SELECT count(*) FROM sqlite_schema"):
            raise StorageError(f"{database.path}: not a crawl-console database", "Use another --data directory.")
        for script in scripts[version:]:
            database.script((_ROOM / script).read_text("utf-8"))
        database.execute(f"PRAGMA user_version = {len(scripts)}")


def prepared(database: Database) -> bool:
    """Whether the tables are there; another process may be making them right now."""
    return bool(database.value("SELECT count(*) FROM sqlite_schema WHERE name = 'runs'"))
