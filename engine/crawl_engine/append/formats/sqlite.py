"""The output type `sqlite`: one table per dataDef; rows and their cursor move in one transaction."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crawl_engine.append.formats.row_json import (
    NumberLiteral,
    decode_values,
    encodable,
    is_nested,
    split_fields,
    to_one_line,
)
from crawl_engine.append.formats.table_names import quote_name, unique_names
from crawl_engine.append.formats.writer import Batch, FileState, Writer
from crawl_engine.errors import StorageError
from crawl_engine.model.record import to_text
from crawl_engine.runtime.private_file import create_missing
from crawl_engine.store.db.connector import Database, connect_for_reading
from crawl_engine.store.db.sqlite import SqliteDatabase, sqlite3
from crawl_engine.store.tables.output.outputs import Output

ID_COLUMN = "_id"
"""The column of the row id; it gets another name if a field has this one."""

_CREATE_CURSORS = """
CREATE TABLE IF NOT EXISTS _crawl_console (
    data_def TEXT PRIMARY KEY, run TEXT NOT NULL, cursor INTEGER NOT NULL, rows INTEGER NOT NULL
) WITHOUT ROWID
"""
_SELECT_CURSOR = "SELECT cursor, rows FROM _crawl_console WHERE data_def = ? AND run = ?"
_UPSERT_CURSOR = "INSERT OR REPLACE INTO _crawl_console (data_def, run, cursor, rows) VALUES (?, ?, ?, ?)"
_EXISTS = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
_AFFINITIES = {"int": "INTEGER", "float": "REAL", "bool": "INTEGER"}
_BUSY_SECONDS = 5.0
_INSERT_BATCH_SIZE = 1_000


class OutputTable:
    """The table of one dataDef: its columns, and the values bound to them.

    `types` has field types by column. A `decimal` is stored as text, which keeps its digits. Without a type, a number
    is stored as a number if that keeps every digit, else as text.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        joins: Mapping[str, str] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._columns = tuple(columns)
        self._joins = dict(joins or {})
        self._types = dict(types or {})
        self.id_column, *self.column_names = unique_names((ID_COLUMN, *columns))
        self.quoted_name = quote_name(name)

    def create_sql(self) -> str:
        """The CREATE TABLE statement."""
        columns = [f"{quote_name(self.id_column)} INTEGER PRIMARY KEY"]
        for name, column in zip(self.column_names, self._columns, strict=True):
            type_ = self._types.get(column)
            columns.append(quote_name(name) + (f" {_AFFINITIES.get(type_, 'TEXT')}" if type_ else ""))
        return f"CREATE TABLE {self.quoted_name} ({', '.join(columns)})"

    def insert_sql(self) -> str:
        """The statement that inserts one row of `bind_row`."""
        return f"INSERT OR REPLACE INTO {self.quoted_name} VALUES ({','.join('?' * (len(self.column_names) + 1))})"

    def bind_row(self, id_: int, row: str) -> list[Any]:
        """The parameters of one row."""
        fields = decode_values(row)
        bound: list[Any] = [id_]
        for column in self._columns:
            value: Any = fields.get(column)
            if isinstance(value, NumberLiteral):
                value = str(value) if self._types.get(column) == "decimal" else value.to_value()
            elif isinstance(value, bool):
                value = int(value)
            elif isinstance(value, list | dict):
                value = (
                    to_one_line(split_fields(row)[column])
                    if is_nested(value)
                    else to_text(value, self._joins.get(column, "|"))
                )
            bound.append(value)
        return bound

    def insert_rows(self, db: Database, batch: Batch) -> None:
        """Insert rows; replace those with the same id."""
        insert = self.insert_sql()
        for id_, row in batch:
            values = self.bind_row(id_, row)
            try:
                db.execute(insert, values)
            except UnicodeEncodeError:
                db.execute(insert, [_encodable(value) for value in values])


class TableReader:
    """Reads the table of a dataDef from the database at `path`, and makes the rows that it should hold.

    Raises StorageError if the file is missing or damaged, or is not a database.
    """

    def __init__(self, path: Path, table: OutputTable) -> None:
        self._table = table
        self._select = f"SELECT * FROM {table.quoted_name} WHERE {quote_name(table.id_column)} > ? AND "
        self._select += f"{quote_name(table.id_column)} <= ? ORDER BY 1"
        self._db = connect_for_reading(path, busy_seconds=_BUSY_SECONDS)
        self._expected = SqliteDatabase(sqlite3.connect(":memory:", isolation_level=None), path, 0)
        self._expected.execute(table.create_sql())

    def has_table(self, run: str) -> bool:
        """Whether the table exists with its columns, and holds rows of this run."""
        if not self._db.one(_EXISTS, ("_crawl_console",)) or not self._db.one(_EXISTS, (self._table.name,)):
            return False
        width = self._db.value("SELECT count(*) FROM pragma_table_info(?)", (self._table.name,))
        owned = self._db.one(_SELECT_CURSOR, (self._table.name, run)) is not None
        return owned and width == len(self._table.column_names) + 1

    def read(self, after: int, upto: int) -> dict[int, str]:
        """By id: the rows between two ids, in a form that tells values of other types apart."""
        return {int(row[0]): repr(row) for row in self._db.all(self._select, (after, upto))}

    def expect(self, batch: Batch) -> dict[int, str]:
        """The same for rows as they are written: SQLite itself converts their values."""
        self._table.insert_rows(self._expected, batch)
        rows = self._expected.all(self._select, (0, batch[-1][0])) if batch else []
        self._expected.execute(f"DELETE FROM {self._table.quoted_name}")
        return {int(row[0]): repr(row) for row in rows}

    def close(self) -> None:
        """Close the database."""
        self._db.close()
        self._expected.close()


class SqliteWriter(Writer):
    """Writes one table of the database at `path`; `run` is the id of the run whose rows it holds."""

    def __init__(self, path: Path, run: str, table: OutputTable, *, mode: int = 0o600) -> None:
        self._path = path
        self._run = run
        self._table = table
        self._mode = mode
        self._db: Database | None = None
        self._inode = 0
        self._rows: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._db is not None

    def restore(self, output: Output) -> bool:
        """Delete rows behind the recorded cursor; False if the table is missing, of another run, or lacks rows."""
        if not self._path.exists():
            self.close()
            return False
        if self._db is not None and self._inode == self._path.stat().st_ino and self._rows == output.rows:
            return True
        try:
            db = self._open()
            return self._is_full_length(db, output.bytes) and self._truncate(db, output)
        except StorageError as error:
            self.close()
            if _is_damaged(error):
                return False
            raise

    def append(self, output: Output, batch: Batch) -> FileState:
        """Insert rows and move the cursor, in one transaction."""
        db, rows = self._open(), output.rows + len(batch)
        with db.transaction():
            self._table.insert_rows(db, batch)
            self._write_cursor(db, batch[-1][0], rows)
        return self._file_state(db, rows)

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Recreate the table in one transaction; a damaged database is recreated as a whole."""
        try:
            return self._create_table(self._open(), batches)
        except StorageError as error:
            self.close()
            if not _is_damaged(error):
                raise
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        return self._create_table(self._open(), batches)

    def close(self) -> None:
        """Close the database; the last connection merges its WAL."""
        db, self._db, self._rows = self._db, None, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.close()

    def _open(self) -> Database:
        if self._db is None or not self._path.exists() or self._path.stat().st_ino != self._inode:
            self.close()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_missing(self._path, self._mode)
            self._db = SqliteDatabase.open(self._path, creates=True, busy_seconds=_BUSY_SECONDS)
            self._inode = self._path.stat().st_ino
        return self._db

    def _is_full_length(self, db: Database, size: int) -> bool:
        """Whether the file has its recorded length: SQLite reads missing bytes at the end as zeros."""
        held_by_readers, _, _ = db.one("PRAGMA wal_checkpoint(TRUNCATE)") or (1, 0, 0)
        return bool(held_by_readers) or self._path.stat().st_size >= size

    def _truncate(self, db: Database, output: Output) -> bool:
        with db.transaction():
            if not db.one(_EXISTS, ("_crawl_console",)) or not db.one(_EXISTS, (self._table.name,)):
                return False
            recorded = db.one(_SELECT_CURSOR, (self._table.name, self._run))
            if recorded is None:
                return False
            delete_newer = f"DELETE FROM {self._table.quoted_name} WHERE {quote_name(self._table.id_column)} > ?"
            rows = int(recorded[1]) - int(db.execute(delete_newer, (output.cursor,)).rowcount)
            if rows != output.rows:
                return False
            self._write_cursor(db, min(int(recorded[0]), output.cursor), rows)
        return True

    def _create_table(self, db: Database, batches: Iterable[Batch]) -> FileState:
        rows, last = 0, 0
        with db.transaction():
            db.execute(_CREATE_CURSORS)
            db.execute(f"DROP TABLE IF EXISTS {self._table.quoted_name}")
            db.execute(self._table.create_sql())
            for batch in batches:
                self._table.insert_rows(db, batch)
                rows, last = rows + len(batch), batch[-1][0]
            self._write_cursor(db, last, rows)
        return self._file_state(db, rows)

    def _write_cursor(self, db: Database, cursor: int, rows: int) -> None:
        db.execute(_UPSERT_CURSOR, (self._table.name, self._run, cursor, rows))
        self._rows = rows

    def _file_state(self, db: Database, rows: int) -> FileState:
        return FileState(int(db.value(_SIZE)), rows, self._inode)


class SqliteFormat:
    """The output type `sqlite`."""

    def create_writer(self, output: Output, *, run: str, mode: int) -> SqliteWriter:
        """The writer of an output."""
        return SqliteWriter(Path(output.path), run, table_of(output), mode=mode)

    def create_encoder(self, settings: Mapping[str, Any]) -> None:
        """None: a database is not a stream of bytes."""


FORMAT = SqliteFormat()


def table_of(output: Output) -> OutputTable:
    """The table of an output."""
    settings = output.settings
    return OutputTable(output.data_def, settings["columns"], settings.get("joins"), settings.get("types"))


def fill_table(path: Path, name: str, settings: Mapping[str, Any], batches: Iterable[Batch]) -> int:
    """Write rows to a new table of the database at `path`, replacing one of that name; returns how many.

    Raises StorageError if it cannot be written.
    """
    import sqlite_utils  # slow: only exports import it

    table, count = OutputTable(name, settings["columns"], settings.get("joins")), 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal count
        for batch in batches:
            count += len(batch)
            for id_, row in batch:
                yield dict(zip(names, map(_encodable, table.bind_row(id_, row)), strict=True))

    names = (table.id_column, *table.column_names)
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        with contextlib.closing(connection):
            db = sqlite_utils.Database(connection, execute_plugins=False)
            with db.atomic():
                db[table.name].drop(ignore=True)
                db.execute(table.create_sql())
                db.table(table.name).insert_all(records(), batch_size=_INSERT_BATCH_SIZE)
    except sqlite3.Error as error:
        raise StorageError(f"{path}: {error}", "Name a new file, or a SQLite database that may be written.") from error
    return count


def _encodable(value: Any) -> Any:
    return encodable(value) if isinstance(value, str) else value


def _is_damaged(error: StorageError) -> bool:
    return ": damaged (" in error.message
