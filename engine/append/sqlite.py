"""SQLite outputs: a table a dataDef, its cursor in the same file and the same transaction. Knows no crawl table."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.append.row_json import Digits, as_values, nested, one_line, parts
from engine.append.writer import Batch, Extent
from engine.errors import StorageError
from engine.model.text_value import written
from engine.store.db.connector import Database, sqlite3
from engine.store.tables.outputs import Output

KEY = "_id"
"""The column of the row's id; under another name where a field has this one."""

_CURSORS = """
CREATE TABLE IF NOT EXISTS _crawl_console (
    data_def TEXT PRIMARY KEY, run TEXT NOT NULL, cursor INTEGER NOT NULL, rows INTEGER NOT NULL
) WITHOUT ROWID
"""
_TOLD = "SELECT cursor, rows FROM _crawl_console WHERE data_def = ? AND run = ?"
_TELL = "INSERT OR REPLACE INTO _crawl_console (data_def, run, cursor, rows) VALUES (?, ?, ?, ?)"
_EXISTS = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
_AFFINITIES = {"int": "INTEGER", "float": "REAL", "bool": "INTEGER"}
_BUSY_SECONDS = 5.0
_FILL_ROWS = 1_000


class Table:
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
        self.key, *self.names = _distinct((KEY, *columns))
        self.quoted = _quoted(name)

    def create(self) -> str:
        """The CREATE TABLE statement."""
        told = [f"{_quoted(self.key)} INTEGER PRIMARY KEY"]
        for name, column in zip(self.names, self._columns, strict=True):
            type_ = self._types.get(column)
            told.append(_quoted(name) + (f" {_AFFINITIES.get(type_, 'TEXT')}" if type_ else ""))
        return f"CREATE TABLE {self.quoted} ({', '.join(told)})"

    def insert(self) -> str:
        """The statement that adds what `bound` gives."""
        return f"INSERT OR REPLACE INTO {self.quoted} VALUES ({','.join('?' * (len(self.names) + 1))})"

    def bound(self, id_: int, row: str) -> list[Any]:
        """The parameters of one row."""
        fields = as_values(row)
        bound: list[Any] = [id_]
        for column in self._columns:
            value: Any = fields.get(column)
            if isinstance(value, Digits):
                value = str(value) if self._types.get(column) == "decimal" else value.number()
            elif isinstance(value, bool):
                value = int(value)
            elif isinstance(value, list | dict):
                value = one_line(parts(row)[column]) if nested(value) else written(value, self._joins.get(column, "|"))
            bound.append(value)
        return bound

    def add(self, db: Database, batch: Batch) -> None:
        """Insert rows; those already there are replaced."""
        insert = self.insert()
        for id_, row in batch:
            values = self.bound(id_, row)
            try:
                db.execute(insert, values)
            except UnicodeEncodeError:
                db.execute(insert, [_encodable(value) for value in values])


class SqliteWriter:
    """Keeps one table of the database at `path`; `run` names the run whose rows it holds."""

    def __init__(self, path: Path, run: str, table: Table, *, mode: int = 0o600) -> None:
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
            db = self._opened()
            return self._all_there(db, output.bytes) and self._cut(db, output)
        except StorageError as error:
            self.close()
            if _damaged(error):
                return False
            raise

    def append(self, output: Output, batch: Batch) -> Extent:
        """Insert rows and move the cursor, in one transaction."""
        db, rows = self._opened(), output.rows + len(batch)
        with db.transaction():
            self._table.add(db, batch)
            self._tell(db, batch[-1][0], rows)
        return self._extent(db, rows)

    def prepare(self, batches: Iterable[Batch]) -> Extent:
        """Make the table anew in one transaction; a damaged database is made anew as a whole."""
        try:
            return self._made(self._opened(), batches)
        except StorageError as error:
            self.close()
            if not _damaged(error):
                raise
        for tail in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + tail).unlink(missing_ok=True)
        return self._made(self._opened(), batches)

    def adopt(self) -> None:
        """Nothing is left to do: the transaction put the new table in the old one's place."""

    def close(self) -> None:
        """Let go of the file; the last one merges its log."""
        db, self._db, self._rows = self._db, None, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.close()

    def _opened(self) -> Database:
        if self._db is None or not self._path.exists() or self._path.stat().st_ino != self._inode:
            self.close()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, self._mode))
            self._db = Database.open(self._path, busy_seconds=_BUSY_SECONDS)
            self._inode = self._path.stat().st_ino
        return self._db

    def _all_there(self, db: Database, size: int) -> bool:
        """Whether the file is as long as it was: SQLite takes what is missing at its end for zeros."""
        held_by_readers, _, _ = db.one("PRAGMA wal_checkpoint(TRUNCATE)") or (1, 0, 0)
        return bool(held_by_readers) or self._path.stat().st_size >= size

    def _cut(self, db: Database, output: Output) -> bool:
        with db.transaction():
            if not db.one(_EXISTS, ("_crawl_console",)) or not db.one(_EXISTS, (self._table.name,)):
                return False
            told = db.one(_TOLD, (self._table.name, self._run))
            if told is None:
                return False
            behind = f"DELETE FROM {self._table.quoted} WHERE {_quoted(self._table.key)} > ?"
            rows = int(told[1]) - int(db.execute(behind, (output.cursor,)).rowcount)
            if rows != output.rows:
                return False
            self._tell(db, min(int(told[0]), output.cursor), rows)
        return True

    def _made(self, db: Database, batches: Iterable[Batch]) -> Extent:
        rows, last = 0, 0
        with db.transaction():
            db.execute(_CURSORS)
            db.execute(f"DROP TABLE IF EXISTS {self._table.quoted}")
            db.execute(self._table.create())
            for batch in batches:
                self._table.add(db, batch)
                rows, last = rows + len(batch), batch[-1][0]
            self._tell(db, last, rows)
        return self._extent(db, rows)

    def _tell(self, db: Database, cursor: int, rows: int) -> None:
        db.execute(_TELL, (self._table.name, self._run, cursor, rows))
        self._rows = rows

    def _extent(self, db: Database, rows: int) -> Extent:
        return Extent(int(db.value(_SIZE)), rows, self._inode)


def fill(path: Path, table: Table, batches: Iterable[Batch]) -> int:
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
                yield dict(zip(names, map(_encodable, table.bound(id_, row)), strict=True))

    names = (table.key, *table.names)
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        with contextlib.closing(connection):
            db = sqlite_utils.Database(connection, execute_plugins=False)
            with db.atomic():
                db[table.name].drop(ignore=True)
                db.execute(table.create())
                db.table(table.name).insert_all(records(), batch_size=_FILL_ROWS)
    except sqlite3.Error as error:
        raise StorageError(f"{path}: {error}", "Name a new file, or a SQLite database that may be written.") from error
    return count


def _distinct(names: Sequence[str]) -> list[str]:
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


def _damaged(error: StorageError) -> bool:
    return ": damaged (" in error.what


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
