"""A connection to a SQLite file: pragmas, transactions, many rows at once; raises our own errors.

A limit is written `LIMIT +?`: SQLite compiles a query with `LIMIT ?` again at each binding (decision 003).
"""

import contextlib
import importlib
import sqlite3 as stdlib_sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from crawl_engine.errors import CrawlError, StorageError, reason_of
from crawl_engine.runtime.disk_space import is_full
from crawl_engine.runtime.private_file import create_missing
from crawl_engine.store.db.database import BUSY_SECONDS, DAMAGE_REMEDY, Database
from crawl_engine.store.db.file_header import APPLICATION_ID, SCHEMA_NUMBER
from crawl_engine.store.db.retry_busy import DatabaseBusy, DiskFull, retry_busy

sqlite3: Any = importlib.import_module("pysqlite3.dbapi2") if sys.platform == "linux" else stdlib_sqlite3
"""SQLite before 3.51.3 can corrupt a WAL file that several connections write; the wheel bundles a newer one."""

# identities: for each NULL or blob without an adapter, the module raises and drops two exceptions
sqlite3.register_adapter(type(None), {}.get)
sqlite3.register_adapter(bytes, bytes)

_BEGIN_RETRY_SECONDS = 0.001
_BLOCKED_BUSY_SECONDS = 0.05
_DISK_FULL_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP")
"""The last two: the shared index of the write-ahead log cannot grow."""
_UNCLEAR_ERRORS = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
"""SQLite also raises these on a full disk, if it cannot create the files beside a database."""
_CACHE_KB, _SMALL_CACHE_KB = 4_000, 500
_BLOB_PIECE_BYTES = 64 * 1024
_PAGES_PER_STEP = 1_000
_CHUNK_SIZES = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_CACHED_STATEMENTS = 512
"""More than a node uses, each in all chunk sizes: one that falls out is compiled again at every commit."""

_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Of a statement; the latter where a text in a damaged file, or in a message about it, is no UTF-8."""
_DAMAGE_MARKS = ("malformed", "not a database", "Could not decode to UTF-8")


class SqliteDatabase(Database):
    """A database file."""

    is_shared = False

    def __init__(
        self, connection: Any, path: Path, busy_seconds: float, durable: bool = True, copy: Path | None = None
    ) -> None:
        """`copy`: the temporary file that is open in place of `path`, and is deleted when this is closed."""
        super().__init__(path, busy_seconds, durable)
        self._connection = connection
        self.file = copy or path
        self._synchronous: bool | None = None
        """Whether commits wait for the disk now; None: as SQLite was built."""
        self._statements: dict[tuple[str, int, int], str] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durable: bool = True,
        read_only: bool = False,
        immutable: bool = False,
        creates: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        page_size: int | None = None,
        small_cache: bool = False,
    ) -> "SqliteDatabase":
        """Open a database file. `durable`: commits survive a power loss (synchronous FULL), else only a crash.

        `immutable`: nothing writes the file meanwhile; neither reads nor creates a write-ahead log. `creates`: it may
        be missing or empty. `page_size`: that of a new file, which is numbered as ours. `small_cache`: for a connection
        that reads little. Raises StorageError, naming the file, if it cannot be opened or is not a database.
        """
        read_only = read_only or immutable
        uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}{'&immutable=1' if immutable else ''}"
        try:
            if creates:  # SQLite gives the mode of this file to its write-ahead log
                create_missing(path)
            elif not path.exists() or not (read_only or path.stat().st_size):
                raise StorageError(
                    f"{path}: {'empty' if path.exists() else 'missing'}",
                    "Restore the data directory, or use another one. A new run makes what is missing.",
                )
            connection = sqlite3.connect(
                uri,
                uri=True,
                timeout=0 if not read_only else busy_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_CACHED_STATEMENTS,
            )
        except (sqlite3.Error, OSError) as error:
            reason = "a folder, and no file" if path.is_dir() else reason_of(error)
            raise StorageError(f"{path}: {reason}", "Check that the folder exists and may be written.") from error
        database = cls(connection, path, busy_seconds, durable)
        if read_only:
            database.execute("PRAGMA query_only = 1")
        else:
            # processes that create the file at the same time block each other here, and SQLite does not wait
            if page_size is not None:
                retry_busy(lambda: database._number_new(page_size), seconds=busy_seconds, pause=0.01)
            retry_busy(lambda: database.execute("PRAGMA journal_mode = WAL"), seconds=busy_seconds, pause=0.01)
            database._set_synchronous(durable)
        database.execute(f"PRAGMA cache_size = {-(_SMALL_CACHE_KB if small_cache else _CACHE_KB)}")
        return database

    def resize_cache(self, kilobytes: int | None) -> None:
        """Let the page cache grow to this size; None: to the usual one, freeing the rest."""
        self.execute(f"PRAGMA cache_size = {-(kilobytes or _CACHE_KB)}")
        if kilobytes is None:
            self.execute("PRAGMA shrink_memory")

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        self._connection.close()
        if self.file != self.path:
            self.file.unlink(missing_ok=True)

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """A cursor on one statement. Raises DatabaseBusy, StorageError."""
        try:
            return self._connection.execute(sql, parameters)
        except _ERRORS as error:
            raise self._translate_error(error) from error

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, one by one. Raises StorageError."""
        try:
            yield from self._connection.execute(sql)
        except _ERRORS as error:
            raise self._translate_error(error) from error

    def fetch(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()
    ) -> tuple[Sequence[Sequence[Any]], list[tuple[Any, ...]]]:
        """As in Database."""
        try:
            cursor = self._connection.execute(sql, parameters)
            return cursor.description, cursor.fetchall()
        except _ERRORS as error:
            raise self._translate_error(error) from error

    def execute_values(
        self, sql: str, rows: Sequence[Sequence[Any]], *, leading: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Run `sql`, whose `{values}` stands for a VALUES list, over many rows; returns the rows of RETURNING.

        A statement takes up to 64 rows: the interpreter lock is released once for all of them instead of once per row
        (and once per returned row), and the few sizes keep the statements prepared.
        `leading` fills the placeholders before `{values}`.
        """
        returned: list[tuple[Any, ...]] = []
        done, count = 0, len(rows)
        while done < count:
            size = next(c for c in _CHUNK_SIZES if c <= count - done)
            chunk = rows[done : done + size]
            parameters = [*leading, *chain.from_iterable(chunk)]
            returned += self.all(self._expand_values(sql, size, len(chunk[0])), parameters)
            done += size
        return returned

    def take_ids(self, table: str, count: int) -> list[int]:
        """As in Database."""
        last = int(self.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)) or 0)
        return list(range(last + 1, last + 1 + count))

    def insert_large(self, table: str, values: Mapping[str, Any], large: Mapping[str, memoryview]) -> int:
        """As in Database: large columns become blobs, written piece by piece; SQLite holds a parameter twice."""
        # only blobs of zeros at the end of a row take no memory
        marks = ", ".join(["?"] * len(values) + ["zeroblob(?)"] * len(large))
        sql = f"INSERT INTO {table} ({', '.join([*values, *large])}) VALUES ({marks}) RETURNING id"
        row = int(self.value(sql, [*values.values(), *map(len, large.values())]))
        for column, data in large.items():
            self._fill_blob(table, column, row, data)
        return row

    def _fill_blob(self, table: str, column: str, row: int, data: memoryview) -> None:
        open_blob = getattr(self._connection, "open_blob", None) or self._connection.blobopen  # the latter: macOS
        try:
            with contextlib.closing(open_blob(table, column, row)) as blob:
                for start in range(0, len(data), _BLOB_PIECE_BYTES):
                    blob.write(data[start : start + _BLOB_PIECE_BYTES])
        except _ERRORS as error:
            raise self._translate_error(error) from error

    def _expand_values(self, sql: str, size: int, width: int) -> str:
        key = (sql, size, width)
        text = self._statements.get(key)
        if text is None:
            marks = "(" + ",".join("?" * width) + ")"
            text = self._statements[key] = sql.replace("{values}", "VALUES " + ",".join([marks] * size))
        return text

    def _begin_write(self, *, durable: bool, shared: bool) -> None:  # noqa: ARG002 - SQLite has one writer
        if durable is not self._synchronous:
            self._set_synchronous(durable)
        self._begin("IMMEDIATE")

    def _begin_read(self) -> None:
        self._begin("DEFERRED")

    def _commit(self) -> None:
        self.execute("COMMIT")

    def find_damage(self) -> str:
        """As in Database."""
        try:
            [(said,)] = self.fetch("PRAGMA quick_check(1)")[1]
        except StorageError as error:
            return str(error.message)
        return "" if said == "ok" else f"{self.path}: damaged ({said})"

    def checkpoint(self, seconds: float) -> bool:
        """Copy the write-ahead log into the file and empty it; False if others still read it after `seconds`.

        New writers wait meanwhile, but not while the greater part is copied. Raises DatabaseBusy, StorageError.
        """
        self.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
        try:
            busy, _, _ = self.one("PRAGMA wal_checkpoint(TRUNCATE)") or (1, 0, 0)
        finally:
            self.execute("PRAGMA busy_timeout = 0")
        return not busy

    def copy_to(self, path: Path) -> None:
        """Copy the database as it is at this moment into a new file, however others write to it meanwhile.

        Raises DatabaseBusy, StorageError; DiskFull names the copy.
        """
        with contextlib.closing(SqliteDatabase(_connect_plain(path), path, self.busy_seconds)) as target:
            self._copy_into(target)

    def copy_aside(self, path: Path) -> "SqliteDatabase":
        """A copy as `copy_to` makes it, that is used in place of this one; its file is deleted with it."""
        copy = SqliteDatabase(_connect_plain(path), self.path, self.busy_seconds, copy=path)
        try:
            self._copy_into(copy)
            copy.execute("PRAGMA journal_mode = OFF")
        except BaseException:
            copy.close()
            raise
        return copy

    def _copy_into(self, target: "SqliteDatabase") -> None:
        with self.snapshot():
            # the read must be open before: without it, each write of others restarts the copy
            self.execute("SELECT 1 FROM sqlite_schema")
            try:
                self._connection.backup(target._connection, pages=_PAGES_PER_STEP)
            except sqlite3.Error as error:
                raise target._translate_error(error) from error

    def has_tables(self) -> bool:
        """Whether the file has tables; False while another process creates them."""
        return bool(self.value("SELECT count(*) FROM sqlite_schema"))

    @property
    def user_version(self) -> int:
        """The number of its format; 0: it is new."""
        return int(self.value("PRAGMA user_version"))

    @property
    def data_version(self) -> int:
        """A number that changes when another connection commits."""
        return int(self.value("PRAGMA data_version"))

    @property
    def free_bytes(self) -> int:
        """The bytes of the file that hold nothing: later writes use them."""
        return int(self.value("PRAGMA freelist_count")) * int(self.value("PRAGMA page_size"))

    @property
    def used_bytes(self) -> int:
        """The bytes that hold something, also those that are still in the write-ahead log."""
        return int(self.value("PRAGMA page_count")) * int(self.value("PRAGMA page_size")) - self.free_bytes

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open: SQLite itself rolls back all of it, savepoints included, on disk errors."""
        return bool(self._connection.in_transaction)

    def execute_script(self, text: str) -> None:
        """Run statements one by one, inside the open transaction (`executescript` of sqlite3 would commit it)."""
        statement = ""
        for line in text.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self.execute(statement)
                statement = ""

    def _begin(self, mode: str) -> None:
        """Open a transaction, waiting for other writers.

        SQLite's busy handler sleeps longer each time, up to 100 ms, while a write here takes 2 ms. Short sleeps of
        equal length let the next writer in at once and starve none.
        """
        begun = time.monotonic()
        # after one full wait, the next writes give up sooner until one succeeds
        limit = self.busy_seconds if self.blocked_since is None else min(self.busy_seconds, _BLOCKED_BUSY_SECONDS)
        while True:
            try:
                self._connection.execute(f"BEGIN {mode}")
                if mode == "IMMEDIATE":
                    self.blocked_since = None
                return
            except sqlite3.Error as error:
                is_busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() >= begun + limit:
                    if is_busy:
                        self.blocked_since = self.blocked_since or begun
                    raise self._translate_error(error) from error
                time.sleep(_BEGIN_RETRY_SECONDS)

    def _number_new(self, page_size: int) -> None:
        """Number a new file before it has a write-ahead log: its first bytes always name this program."""
        if self.value("PRAGMA application_id") == APPLICATION_ID:
            return
        self.execute(f"PRAGMA page_size = {page_size}")
        with self.transaction():
            self.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self.execute(f"PRAGMA user_version = {SCHEMA_NUMBER}")

    def _set_synchronous(self, durable: bool) -> None:
        """Change whether commits wait for the disk. Outside of transactions alone: SQLite refuses it inside."""
        self.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self._synchronous = durable

    def _rollback(self) -> None:
        if self.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _translate_error(self, error: Exception) -> CrawlError:
        text = str(error)
        name = getattr(error, "sqlite_errorname", "") or ""
        if "locked" in text or "busy" in text or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return DatabaseBusy(f"{self.path}: {text}", "Another process is writing to it; the write is retried.")
        is_unclear = name.startswith(_UNCLEAR_ERRORS) or "unable to open" in text
        if "full" in text or name in _DISK_FULL_ERRORS or (is_unclear and is_full(self.path.parent)):
            said = text if "full" in text else f"the disk is full ({text})"
            return DiskFull(f"{self.path}: {said}", "Free some space on the disk. A crawl that runs waits for it.")
        is_corrupt = isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
        if is_corrupt or any(mark in text for mark in _DAMAGE_MARKS):
            return StorageError(f"{self.path}: damaged ({text})", DAMAGE_REMEDY)
        if "readonly" in text or "unable to open" in text:
            return StorageError(f"{self.path}: {text}", "Check the permissions of the data directory.")
        return StorageError(f"{self.path}: {text}", "This is a bug in crawl-console or a disk error; see data/logs.")


def _connect_plain(path: Path) -> Any:
    return sqlite3.connect(path, isolation_level=None)
