"""Copies the store of a crawl between SQLite files and PostgreSQL: every row, id and counter."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Self

from crawl_engine.errors import UsageError
from crawl_engine.store.db.connector import connect_postgres, has_no_wal
from crawl_engine.store.db.file_header import CRAWL, PAGES
from crawl_engine.store.db.location import Location, read_location
from crawl_engine.store.db.postgres_schema import read_tables
from crawl_engine.store.db.schema import SQL_DIR, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from crawl_engine.store.db.postgres import PostgresDatabase

_PARTIAL = "store-copy.partial"
_NOT_COPIED = ("sqlite_sequence", "clock")
_AT_ONCE = 1_000
_Row = tuple[Any, ...]


def copy_store(source: Path | Location, target: Path | Location, on_rows: Callable[[int], None]) -> int:
    """Copy all tables in one consistent read; returns the number of rows. A copy that fails leaves nothing.

    Nobody writes the source meanwhile. `on_rows` is called with each number of rows that is written. Raises UsageError
    if the target has a crawl; StorageError, DatabaseBusy, OSError.
    """
    tables = {name: list(columns) for name, columns in read_tables().items() if name not in _NOT_COPIED}
    count = 0
    with _open(source).reading() as reader, _open(target).writing(list(tables)) as writer:
        for table, columns in tables.items():
            for rows in _batches(reader.read(table, columns)):
                writer.write(table, columns, rows)
                count += len(rows)
                on_rows(len(rows))
        writer.set_counters(reader.counters())
    return count


def _batches(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Lists of rows, each of about a bounded size."""
    batch: list[_Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(batch) >= _AT_ONCE or size > 4_000_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _SqliteSide:
    """The two files of a data dir, read or written as a whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, SqliteDatabase] = {}
        self._places: dict[str, SqliteDatabase] = {}
        """By table the file that has it."""

    @contextlib.contextmanager
    def reading(self) -> Iterator[Self]:
        """One consistent read."""
        with contextlib.ExitStack() as stack:
            for name in (CRAWL, PAGES):
                self._open_file(self._folder / name, stack, read_only=True)
                stack.enter_context(self._files[name].snapshot())
            yield self

    @contextlib.contextmanager
    def writing(self, tables: Sequence[str]) -> Iterator[Self]:
        """A new store, with empty tables and without triggers; at the end it is there with all of it."""
        if (self._folder / CRAWL).exists():
            raise UsageError(f"{self._folder}: it has a crawl", "Nothing was changed. Name another target.")
        partial = self._folder / _PARTIAL
        rmtree(partial, ignore_errors=True)  # of a copy that was killed
        try:
            partial.mkdir(mode=0o700, parents=True)
            open_databases(partial).close()
            with contextlib.ExitStack() as stack:
                for name in (PAGES, CRAWL):
                    self._open_file(partial / name, stack)
                    file = self._files[name]
                    file.execute("PRAGMA journal_mode = OFF")  # a copy that fails is deleted
                    stack.enter_context(file.transaction())
                    for (trigger,) in file.all("SELECT name FROM sqlite_schema WHERE type = 'trigger'"):
                        file.execute(f"DROP TRIGGER {trigger}")
                for table in tables:
                    self._places[table].execute(f"DELETE FROM {table}")
                yield self
                self._files[CRAWL].execute_script((SQL_DIR / "triggers.sql").read_text("utf-8"))
            for name in (PAGES, CRAWL):  # a folder with crawl.db is complete
                SqliteDatabase.open(partial / name).close()  # the write-ahead log is on again
                (partial / name).rename(self._folder / name)
        finally:
            rmtree(partial, ignore_errors=True)

    def _open_file(self, path: Path, stack: contextlib.ExitStack, *, read_only: bool = False) -> None:
        file = SqliteDatabase.open(path, read_only=read_only, immutable=read_only and has_no_wal(path))
        self._files[path.name] = stack.enter_context(contextlib.closing(file))
        self._places |= {name: file for (name,) in file.all("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    def read(self, table: str, columns: Sequence[str]) -> Iterator[_Row]:
        return self._places[table].stream(f"SELECT {', '.join(columns)} FROM {table}")

    def write(self, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> None:
        self._places[table].execute_values(f"INSERT INTO {table} ({', '.join(columns)}) {{values}}", rows)

    def counters(self) -> Mapping[str, int]:
        """By table the highest id that was ever given."""
        return {name: seq for file in self._files.values() for name, seq in file.all("SELECT * FROM sqlite_sequence")}

    def set_counters(self, counters: Mapping[str, int]) -> None:
        for file in self._files.values():
            file.execute("DELETE FROM sqlite_sequence")
            for (table,) in file.all("SELECT name FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%'"):
                if table in counters:
                    file.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, counters[table]))


class _PostgresSide:
    """A schema, with the same methods."""

    def __init__(self, database: "PostgresDatabase") -> None:
        self._database = database
        self._types = read_tables()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Self]:
        with contextlib.closing(self._database), self._database.snapshot():
            yield self

    @contextlib.contextmanager
    def writing(self, tables: Sequence[str]) -> Iterator[Self]:
        with contextlib.closing(self._database), self._database.creating() as is_new:
            if not is_new:
                name = self._database.location.project
                raise UsageError(f"project {name}: it has a crawl", "Nothing was changed. Name another project.")
            for table in tables:
                self._run("ALTER TABLE {} DISABLE TRIGGER USER", table)
                self._run("DELETE FROM {}", table)
            self._run("ALTER TABLE {} ENABLE TRIGGER runs_parted", "runs")
            yield self
            for table in tables:
                self._run("ALTER TABLE {} ENABLE TRIGGER USER", table)
                self._run("ANALYZE {}", table)

    def _run(self, text: str, table: str, *parameters: Any) -> Any:
        return self._database.run_native(text.format(f"{self._database.schema}.{table}"), parameters)

    def read(self, table: str, columns: Sequence[str]) -> Iterator[_Row]:
        text = f"COPY (SELECT {', '.join(columns)} FROM {self._database.schema}.{table}) TO STDOUT (FORMAT BINARY)"
        with self._database.copying(text, self._types_of(table, columns)) as copy:
            yield from copy.rows()

    def write(self, table: str, columns: Sequence[str], rows: Sequence[_Row]) -> None:
        text = f"COPY {self._database.schema}.{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with self._database.copying(text, self._types_of(table, columns)) as copy:
            for row in rows:
                copy.write_row([one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in row])

    def _types_of(self, table: str, columns: Sequence[str]) -> list[str]:
        return [self._types[table][name] for name in columns]

    def counters(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for table, column in self._identities().items():
            last, is_called = self._run(f"SELECT last_value, is_called FROM {{}}_{column}_seq", table).fetchone()
            if is_called:
                found[table] = last
        return found

    def set_counters(self, counters: Mapping[str, int]) -> None:
        for table, column in self._identities().items():
            highest = self._run(f"SELECT max({column}) FROM {{}}", table).fetchone()[0]
            if given := max(counters.get(table, 0), highest or 0):
                self._run(f"SELECT setval('{{}}_{column}_seq', $1)", table, given)

    def _identities(self) -> dict[str, str]:
        """By table the column whose ids it gives."""
        text = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1"
        schema = self._database.location.project
        return dict(self._database.run_native(f"{text} AND is_identity = 'YES'", (schema,)).fetchall())


def _open(store: Path | Location) -> _SqliteSide | _PostgresSide:
    location = read_location(store) if isinstance(store, Path) else store
    if location is not None:
        return _PostgresSide(connect_postgres(location, Path(CRAWL)))
    assert isinstance(store, Path)
    return _SqliteSide(store)
