"""The output type `duckdb`: one table per dataDef; rows and their cursor move in one transaction.

DuckDB lets no other process read a file that is open for writing. So the file is closed whenever rows pause, and at the
latest a few seconds after it was opened.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import orjson

from crawl_engine.append.formats.column_types import ColumnType
from crawl_engine.append.formats.row_json import NumberLiteral, encode_value
from crawl_engine.append.formats.table_names import quote_name
from crawl_engine.append.formats.typed_table import (
    Cell,
    Ladder,
    SqlType,
    TypedTable,
    build_columns,
    encode_bool,
    encode_date,
    encode_integer,
    encode_list,
    encode_moment,
    encode_number,
    encode_text,
)
from crawl_engine.append.formats.writer import Batch, FileState, Writer
from crawl_engine.errors import StorageError
from crawl_engine.late_regex import late_regex
from crawl_engine.runtime.private_file import create_draft
from crawl_engine.store.tables.output.outputs import Output

OPEN_SECONDS, IDLE_SECONDS = 2.0, 0.5
"""How long the file stays open: at most, and after the last row."""
_DECIMALS = 9
_DECIMAL = late_regex(rf"-?[0-9]{{1,{38 - _DECIMALS}}}(?:\.[0-9]{{1,{_DECIMALS}}})?")
_DAMAGED = ("not a valid DuckDB", "Could not read enough bytes", "Corrupt", "corrupt", "Failed to load")
_HEADER_BYTES = 3 * 4096
_CREATE_CURSORS = """
CREATE TABLE IF NOT EXISTS _crawl_console (
    data_def VARCHAR NOT NULL, run VARCHAR NOT NULL, last_row BIGINT NOT NULL, rows BIGINT NOT NULL
)
"""
_COLUMNS = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ?"


def _encode_decimal(value: Any) -> str:
    if isinstance(value, NumberLiteral) and _DECIMAL.fullmatch(value):
        return str(value)
    raise ValueError


def _encode_price(value: Any) -> Cell:
    if isinstance(value, dict):
        amount = value.get("amount")
        return {"amount": None if amount is None else _encode_decimal(amount), "currency": value.get("currency")}
    raise ValueError


_TEXT, _JSON = SqlType("VARCHAR", encode_text), SqlType("JSON", encode_value)
_SCALARS: dict[str, tuple[SqlType, ...]] = {
    "int": (SqlType("BIGINT", encode_integer), _TEXT),
    "float": (SqlType("DOUBLE", encode_number), _TEXT),
    "decimal": (SqlType(f"DECIMAL(38,{_DECIMALS})", _encode_decimal), _TEXT),
    "bool": (SqlType("BOOLEAN", encode_bool), _TEXT),
    "date": (SqlType("DATE", encode_date), SqlType("TIMESTAMP", encode_moment), _TEXT),
}
_SCALARS |= {"datetime": _SCALARS["date"], "instant": _SCALARS["date"], "json": (_JSON,), "table": (_JSON,)}
_PRICE = SqlType(f"STRUCT(amount DECIMAL(38,{_DECIMALS}), currency VARCHAR)", _encode_price)
_PRICE_TYPE = [["amount", "decimal"], ["currency", "str"]]


def _ladder(type_: ColumnType) -> Ladder:
    """The types for values of a column."""
    if isinstance(type_, dict):
        return Ladder(tuple(_list_of(step) for step in _ladder(type_["list"]).steps if step is not _PRICE))
    if isinstance(type_, list):
        return Ladder((_PRICE, _JSON) if type_ == _PRICE_TYPE else (_JSON,))
    return Ladder(_SCALARS.get(type_, (_TEXT,)))


def _list_of(item: SqlType) -> SqlType:
    return _JSON if item is _JSON else SqlType(f"{item.name}[]", encode_list(item.encode))


class DamagedDuckdb(StorageError):
    """The file is not a DuckDB database, or lacks blocks."""


class DuckdbWriter(Writer):
    """Writes one table of the database at `path`; `run` is the id of the run whose rows it holds."""

    def __init__(self, path: Path, run: str, table: TypedTable, *, mode: int = 0o600) -> None:
        self._path = path
        self._rows_path = path.with_name(f".{path.name}.rows")
        self._run = run
        self._table = table
        self._mode = mode
        self._db: duckdb.DuckDBPyConnection | None = None
        self._opened_at = self._written_at = 0.0
        self._inode = 0
        self._rows: int | None = None
        self._damaged = False
        """Whether the file must be recreated as a whole."""

    @property
    def is_open(self) -> bool:
        """Whether the content of the table is known; the file itself may be closed."""
        return self._rows is not None

    def restore(self, output: Output) -> bool:
        """Delete rows behind the recorded cursor; False if the table is missing, of another run, or lacks rows."""
        self._close_in_pause()
        if self._damaged or not self._path.exists():
            self.close()
            return False
        if self._inode == self._path.stat().st_ino and self._rows == output.rows:
            return True
        try:
            with self._transaction() as db:
                return self._truncate(db, output)
        except DamagedDuckdb:
            return False

    def append(self, output: Output, batch: Batch) -> FileState:
        """Insert rows and move the cursor, in one transaction."""
        rows = output.rows + len(batch)
        with self._transaction() as db:
            self._insert(db, batch)
            self._write_cursor(db, batch[-1][0], rows)
        return self._file_state(rows)

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Recreate the table in one transaction; a damaged database is recreated as a whole."""
        if self._damaged:
            self.close()
            for suffix in ("", ".wal"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._damaged = False
        rows, last = 0, 0
        with self._transaction() as db:
            db.execute(_CREATE_CURSORS)
            db.execute(f"DROP TABLE IF EXISTS {self._table.quoted_name}")
            db.execute(self._table.create_sql([0] * len(self._table.ladders)))
            for batch in batches:
                self._insert(db, batch)
                rows, last = rows + len(batch), batch[-1][0]
            self._write_cursor(db, last, rows)
        return self._file_state(rows)

    def close(self) -> None:
        """Close the database; its last connection merges the WAL."""
        self._rows = None
        self._disconnect()

    def _close_in_pause(self) -> None:
        now = time.monotonic()
        if self._db is not None and (now - self._written_at > IDLE_SECONDS or now - self._opened_at > OPEN_SECONDS):
            self._disconnect()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        """The open database. Raises StorageError."""
        if self._db is None or not self._path.exists() or self._path.stat().st_ino != self._inode:
            self._disconnect()
            is_new = not self._path.exists()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = duckdb.connect(self._path, config={"threads": 1})
            if is_new:
                self._path.chmod(self._path.stat().st_mode & self._mode)
            self._inode = self._path.stat().st_ino
            self._opened_at = time.monotonic()
        return self._db

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(duckdb.Error):
                db.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction; an error rolls it back, and closes the file. Raises StorageError."""
        try:
            db = self._connect()
            db.begin()
            yield db
            db.commit()
        except duckdb.Error as error:
            self.close()
            message = str(error).partition("\n")[0]
            if any(text in message for text in _DAMAGED):
                self._damaged = True
                raise DamagedDuckdb(f"{self._path}: damaged ({message})", "It is written again.") from None
            if "Could not set lock" in message:
                raise StorageError(f"{self._path}: another program has it open", "Close it there.") from None
            raise StorageError(f"{self._path}: {message}", "Name another file, or fix its folder.") from None
        except BaseException:
            self.close()
            raise
        self._written_at = time.monotonic()

    def _truncate(self, db: duckdb.DuckDBPyConnection, output: Output) -> bool:
        if not self._types(db) or not self._is_full_length(db):
            return False
        try:
            recorded = db.execute(
                "SELECT last_row, rows FROM _crawl_console WHERE data_def = ? AND run = ?",
                (self._table.name, self._run),
            ).fetchone()
        except duckdb.CatalogException:
            return False
        if recorded is None:
            return False
        delete = f"DELETE FROM {self._table.quoted_name} WHERE {quote_name(self._table.row_column)} > ?"
        [deleted] = db.execute(delete, (output.cursor,)).fetchone() or (0,)
        rows = recorded[1] - deleted
        if rows != output.rows:
            return False
        self._write_cursor(db, min(recorded[0], output.cursor), rows)
        return True

    def _is_full_length(self, db: duckdb.DuckDBPyConnection) -> bool:
        """Whether the file has all its blocks: DuckDB reads them only when a query needs them."""
        [(size, used)] = db.execute("SELECT block_size, used_blocks FROM pragma_database_size()").fetchall()
        self._damaged = bool(self._path.stat().st_size < _HEADER_BYTES + size * used)
        return not self._damaged

    def _types(self, db: duckdb.DuckDBPyConnection) -> list[int]:
        """By column, the place of its type in its ladder; empty if the table is missing or has other columns."""
        present = dict(db.execute(_COLUMNS, (self._table.name,)).fetchall())
        if present.keys() != {self._table.row_column, *self._table.column_names}:
            return []
        pairs = zip(self._table.column_names, self._table.ladders, strict=True)
        places = [ladder.find(present[name]) for name, ladder in pairs]
        return [place for place in places if place is not None] if None not in places else []

    def _insert(self, db: duckdb.DuckDBPyConnection, batch: Batch) -> None:
        """Insert rows by a temporary file: DuckDB reads it faster than parameters."""
        table, types = self._table, self._types(db)
        needed, rows = table.encode(batch, types)
        for name, ladder, before, place in zip(table.column_names, table.ladders, types, needed, strict=True):
            if place > before:
                db.execute(f"ALTER TABLE {table.quoted_name} ALTER {quote_name(name)} TYPE {ladder.steps[place].name}")
        names = [f"c{number}" for number in range(len(needed) + 1)]
        lines = b"\n".join([orjson.dumps(dict(zip(names, row, strict=True))) for row in rows])
        with os.fdopen(create_draft(self._rows_path), "wb") as file:
            file.write(lines)
        try:
            read = [
                "BIGINT",
                *(_read_as(ladder.steps[place]) for ladder, place in zip(table.ladders, needed, strict=True)),
            ]
            columns = ", ".join(f"{name}: '{type_}'" for name, type_ in zip(names, read, strict=True))
            db.execute(
                f"INSERT INTO {table.quoted_name} SELECT {', '.join(names)} FROM read_json(?, "
                f"format = 'newline_delimited', maximum_object_size = ?, columns = {{{columns}}})",
                (str(self._rows_path), max(map(len, lines.split(b"\n"))) + 1),
            )
        finally:
            self._rows_path.unlink(missing_ok=True)

    def _write_cursor(self, db: duckdb.DuckDBPyConnection, cursor: int, rows: int) -> None:
        db.execute("DELETE FROM _crawl_console WHERE data_def = ?", (self._table.name,))
        db.execute("INSERT INTO _crawl_console VALUES (?, ?, ?, ?)", (self._table.name, self._run, cursor, rows))
        self._rows = rows

    def _file_state(self, rows: int) -> FileState:
        return FileState(self._path.stat().st_size, rows, self._inode)


class DuckdbFormat:
    """The output type `duckdb`."""

    def create_writer(self, output: Output, *, run: str, mode: int) -> DuckdbWriter:
        """The writer of an output."""
        table = TypedTable(output.data_def, build_columns(output.settings, _ladder))
        return DuckdbWriter(Path(output.path), run, table, mode=mode)

    def create_encoder(self, settings: Mapping[str, Any]) -> None:
        """None: a database is not a stream of bytes."""


FORMAT = DuckdbFormat()


def fill_table(path: Path, name: str, settings: Mapping[str, Any], batches: Iterable[Batch]) -> int:
    """Write rows to a new table of the database at `path`, replacing one of that name; returns how many.

    Raises StorageError if it cannot be written.
    """
    if path.exists() and not path.stat().st_size:
        path.unlink()  # DuckDB refuses an empty file
    writer = DuckdbWriter(path, "", TypedTable(name, build_columns(settings, _ladder)), mode=0o666)
    try:
        with contextlib.closing(writer):
            return writer.prepare(batches).rows
    except DamagedDuckdb as error:
        raise StorageError(error.message, "Name a new file, or a DuckDB database that may be written.") from None


def _read_as(type_: SqlType) -> str:
    """The type as which DuckDB reads cells from JSON: it converts their texts when it inserts them."""
    if type_ is _PRICE:
        return "STRUCT(amount VARCHAR, currency VARCHAR)"
    return "VARCHAR[]" if type_.name.endswith("[]") else "VARCHAR"
