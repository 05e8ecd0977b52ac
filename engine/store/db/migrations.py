"""Brings the schema of an open database up to date, in one transaction."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.errors import StorageError
from engine.store.db.connector import Database

if TYPE_CHECKING:
    import sqlite_utils

_SET_NAME = "crawl-console"
_CREATE_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
_OTHER_DATA_DIR = "Use another --data directory."


def migrate(database: Database, scripts: Mapping[str, str]) -> None:
    """Apply the scripts that this database lacks. `scripts`: all of them, by name, in order.

    `PRAGMA user_version` is the number of scripts applied. Raises DatabaseBusy, StorageError.
    """
    if check_version(database, len(scripts)) < len(scripts):
        with database.transaction():
            _apply_pending(database, scripts, check_version(database, len(scripts)))
    else:
        _check_tables(database, scripts)


def check_version(database: Database, newest: int) -> int:
    """The schema version of a database. Raises StorageError if it is not ours, or newer than this program."""
    version = int(database.value("PRAGMA user_version"))
    if version > newest:
        raise StorageError(
            f"{database.path}: made by a newer crawl-console (schema {version}, this version supports {newest})",
            "Update crawl-console, or use another --data directory.",
        )
    if version == 0 and database.value("SELECT count(*) FROM sqlite_schema"):
        raise StorageError(f"{database.path}: not a crawl-console database", _OTHER_DATA_DIR)
    return version


def _apply_pending(database: Database, scripts: Mapping[str, str], version: int) -> None:
    if version == 0:
        for script in scripts.values():
            database.execute_script(script)
    elif version < len(scripts):
        _upgrade(database, scripts, version)
        _check_tables(database, scripts)
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


def _check_tables(database: Database, scripts: Mapping[str, str]) -> None:
    """Raise StorageError if a table of today is missing, as in files of unreleased versions."""
    expected = {name for script in scripts.values() for name in _CREATE_TABLE.findall(script)}
    missing = expected.difference(str(name) for (name,) in database.all(_TABLES))
    if missing:
        raise StorageError(f"{database.path}: lacks the table {', '.join(sorted(missing))}", _OTHER_DATA_DIR)
