"""Brings the schema of an open database up to date, in one transaction."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.errors import StorageError
from engine.store.db.connector import Database, sqlite3

if TYPE_CHECKING:
    import sqlite_utils

_SET_NAME = "crawl-console"
_OBJECTS = """
SELECT o.type, o.name, c.name FROM sqlite_schema o
LEFT JOIN pragma_table_xinfo(o.name) c ON o.type = 'table' WHERE o.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
# in one statement: another process may create the schema between two
_VERSION = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
_OTHER_DATA_DIR = "Use another --data directory."


def migrate(database: Database, scripts: Mapping[str, str]) -> None:
    """Apply the scripts that this database lacks. `scripts`: all of them, by name, in order.

    `PRAGMA user_version` is the number of scripts applied. Raises DatabaseBusy, StorageError.
    """
    if check_version(database, len(scripts)) < len(scripts):
        with database.transaction():
            _apply_pending(database, scripts, check_version(database, len(scripts)))
    else:
        _check_objects(database, scripts)


def check_version(database: Database, newest: int) -> int:
    """The schema version of a database. Raises StorageError if it is not ours, or newer than this program."""
    version, objects = database.all(_VERSION)[0]
    if version > newest:
        raise StorageError(
            f"{database.path}: made by a newer crawl-console (schema {version}, this version supports {newest})",
            "Update crawl-console, or use another --data directory.",
        )
    if version == 0 and objects:
        raise StorageError(f"{database.path}: not a crawl-console database", _OTHER_DATA_DIR)
    return int(version)


def _apply_pending(database: Database, scripts: Mapping[str, str], version: int) -> None:
    if version == 0:
        for script in scripts.values():
            database.execute_script(script)
    elif version < len(scripts):
        _check_objects(database, dict(list(scripts.items())[:version]))
        _upgrade(database, scripts, version)
        _check_objects(database, scripts)
    database.execute(f"PRAGMA user_version = {len(scripts)}")


def _upgrade(database: Database, scripts: Mapping[str, str], version: int) -> None:
    """Apply the scripts after the first `version` ones, each in a savepoint and recorded in `_sqlite_migrations`."""
    import sqlite_utils  # takes 0.1 s, so only an older file imports it

    migrations = sqlite_utils.Migrations(_SET_NAME)
    for name, script in scripts.items():
        _register(migrations, name, database, script)
    with database.connection() as connection:
        db = sqlite_utils.Database(connection, recursive_triggers=False)
        migrations.ensure_migrations_table(db)
        recorded = {step.name for step in migrations.applied(db)}
        _record(db, migrations.migrations_table, [name for name in list(scripts)[:version] if name not in recorded])
        migrations.apply(db)


def _register(migrations: "sqlite_utils.Migrations", name: str, database: Database, script: str) -> None:
    @migrations(name=name)
    def _(_: "sqlite_utils.Database") -> None:
        database.execute_script(script)


def _record(db: "sqlite_utils.Database", table: str, names: Sequence[str]) -> None:
    """Record steps as applied: `user_version` proves it where no earlier migration recorded them."""
    now = str(datetime.now(UTC))
    db.table(table).insert_all({"migration_set": _SET_NAME, "name": name, "applied_at": now} for name in names)


def _check_objects(database: Database, scripts: Mapping[str, str]) -> None:
    """Raise StorageError if a table, column, index or trigger is missing, as in files of unreleased versions."""
    with contextlib.closing(sqlite3.connect(":memory:")) as reference:
        reference.executescript("\n".join(scripts.values()))
        expected = reference.execute(_OBJECTS).fetchall()
    present = set(database.all(_OBJECTS))
    missing = [key for key in expected if key not in present]
    if missing:
        type_, name, column = missing[0]
        whole = type_ != "table" or all(other[:2] != ("table", name) for other in present)
        lacks = f"the {type_} {name}" if whole else f"the column {name}.{column}"
        raise StorageError(f"{database.path}: lacks {lacks}: made by an unreleased version", _OTHER_DATA_DIR)
