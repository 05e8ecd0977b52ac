"""SQLite outputs: a table a dataDef, its cursor in the same file and the same transaction. Knows no crawl table."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.append.row_json import NumberLiteral, decode_values, is_nested, split_fields, to_one_line
from engine.append.writer import Batch, FileState
from engine.errors import StorageError
from engine.model.text_value import to_text
from engine.store.db.connector import Database, sqlite3
from engine.store.tables.outputs import Output

ID_COLUMN = "_id"
"""The column of the row's id; under another name where a field has this one."""

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
    """How rows of one dataDef lie in a table: its columns, and what is bound to them.

    `types` tells field types by column. A `decimal` is text, which keeps its digits. Where no type is told, a number
    is stored as one if that keeps every digit.
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
        self.id_column, *self.column_names = _unique_names((ID_COLUMN, *columns))
        self.quoted_name = _quote(name)

    def create_sql(self) -> str:
        """The CREATE TABLE statement."""
        told = [f"{_quote(self.id_column)} INTEGER PRIMARY KEY"]
        for name, column in zip(self.column_names, self._columns, strict=True):
            type_ = self._types.get(column)
            told.append(_quote(name) + (f" {_AFFINITIES.get(type_, 'TEXT')}" if type_ else ""))
        return f"CREATE TABLE {self.quoted_name} ({', '.join(told)})"

    def insert_sql(self) -> str:
        """The statement that adds what `bound` gives."""
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
        """Insert rows; those already there are replaced."""
        insert = self.insert_sql()
        for id_, row in batch:
            values = self.bind_row(id_, row)
            try:
                db.execute(insert, values)
            except UnicodeEncodeError:
                db.execute(insert, [_encodable(value) for value in values])


class SqliteWriter:
    """Keeps one table of the database at `path`; `run` names the run whose rows it holds."""

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
        """Whether it holds the file open."""
        return self._db is not None

    def restore(self, output: Output) -> bool:
        """Delete rows behind the recorded cursor; False where the table is missing, of another run, or lacks rows."""
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
        """Make the table anew in one transaction; a damaged database is made anew as a whole."""
        try:
            return self._create_table(self._open(), batches)
        except StorageError as error:
            self.close()
            if not _is_damaged(error):
                raise
        for tail in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + tail).unlink(missing_ok=True)
        return self._create_table(self._open(), batches)

    def swap_in(self) -> None:
        """Nothing is left to do: the transaction put the new table in the old one's place."""

    def close(self) -> None:
        """Let go of the file; the last one merges its log."""
        db, self._db, self._rows = self._db, None, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.close()

    def _open(self) -> Database:
        if self._db is None or not self._path.exists() or self._path.stat().st_ino != self._inode:
            self.close()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, self._mode))
            self._db = Database.open(self._path, busy_seconds=_BUSY_SECONDS)
            self._inode = self._path.stat().st_ino
        return self._db

    def _is_full_length(self, db: Database, size: int) -> bool:
        """Whether the file is as long as it was: SQLite takes what is missing at its end for zeros."""
        held_by_readers, _, _ = db.one("PRAGMA wal_checkpoint(TRUNCATE)") or (1, 0, 0)
        return bool(held_by_readers) or self._path.stat().st_size >= size

    def _truncate(self, db: Database, output: Output) -> bool:
        with db.transaction():
            if not db.one(_EXISTS, ("_crawl_console",)) or not db.one(_EXISTS, (self._table.name,)):
                return False
            told = db.one(_SELECT_CURSOR, (self._table.name, self._run))
            if told is None:
                return False
            behind = f"DELETE FROM {self._table.quoted_name} WHERE {_quote(self._table.id_column)} > ?"
            rows = int(told[1]) - int(db.execute(behind, (output.cursor,)).rowcount)
            if rows != output.rows:
                return False
            self._write_cursor(db, min(int(told[0]), output.cursor), rows)
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


def fill_table(path: Path, table: OutputTable, batches: Iterable[Batch]) -> int:
    """Put rows into a new table of the database at `path`, in place of one of that name; returns how many.

    Raises StorageError where it cannot be written.
    """
    import sqlite_utils  # 100 ms, which only an export pays

    count = 0

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


def _unique_names(names: Sequence[str]) -> list[str]:
    """The names, told apart also where letter case is ignored, as SQLite does."""
    taken = {name.casefold() for name in names[1:]}
    found: list[str] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        free, number = name, 1
        while free.casefold() in seen or ((place == 0 or number > 1) and free.casefold() in taken):
            number += 1
            free = f"{name}_{number}"
        seen.add(free.casefold())
        found.append(free)
    return found


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _is_damaged(error: StorageError) -> bool:
    return ": damaged (" in error.message


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
