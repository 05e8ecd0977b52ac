"""Runs one read-only SQL statement of a user over crawl.db and pages.db."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawl_engine.errors import CrawlError, StorageError, UsageError
from crawl_engine.store.db.connector import Database, DatabaseBusy
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.db.sqlite import SqliteDatabase, sqlite3
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore

QUERY_SECONDS = 30.0
"""The time a statement may compute; the time its rows wait for their reader does not count."""

Decoder = Callable[[bytes, str], str | None]
"""The text of a body of a content type; None for a binary one."""

_BUSY_SECONDS = 5.0
_CHUNK_ROWS = 200
_INSTRUCTIONS_PER_CHECK = 1_000
_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_HIDDEN_COLUMNS = {
    ("cookie_jars", "jar"), ("def_versions", "definitions"), ("locators", "request"), ("outputs", "settings"),
    ("runs", "base_url"),
}  # fmt: skip
"""These columns may hold credentials: they read as NULL."""
_WRITE_ACTIONS = {sqlite3.SQLITE_INSERT: "INSERT", sqlite3.SQLITE_UPDATE: "UPDATE", sqlite3.SQLITE_DELETE: "DELETE"}
_OTHER_ACTIONS = {
    sqlite3.SQLITE_ATTACH: "ATTACH", sqlite3.SQLITE_DETACH: "DETACH", sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "a transaction", sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_FUNCTION: "the function",
}  # fmt: skip
_READ_PRAGMAS = {
    "database_list", "foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list",
    "table_xinfo",
}  # fmt: skip
_FORBIDDEN_FUNCTIONS = {"load_extension"}
_USER_ERROR_CODES = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_MISMATCH}


class QueryResult(Struct, frozen=True):
    """The columns of a statement and its rows, which are read as they are consumed."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextlib.contextmanager
def open_query(
    crawl: Database, sql: str, decoder: Decoder, *, immutable: bool = False, seconds: float = QUERY_SECONDS
) -> Iterator[QueryResult]:
    """Start a statement on a connection of its own beside `crawl`. `immutable`: as `Database.open`.

    Raises UsageError for a statement that is wrong, writes, is not exactly one, or takes longer than `seconds`;
    StorageError, DatabaseBusy.
    """
    if not isinstance(crawl, SqliteDatabase):
        from crawl_engine.store.db.postgres_query import open_statement

        with open_statement(crawl, sql, dict(_HIDDEN_COLUMNS), seconds) as answer:
            yield QueryResult(*answer)
        return
    statement = _Statement(crawl, decoder, immutable, seconds)
    try:
        yield statement.start(sql)
    finally:
        statement.close()


class _Statement:
    """One statement, its connection, and the reasons why SQLite stopped it."""

    def __init__(self, crawl: SqliteDatabase, decoder: Decoder, immutable: bool, seconds: float) -> None:
        self._crawl = crawl
        self._decoder = decoder
        self._seconds = seconds
        self._computed = 0.0
        self._resumed_at = time.monotonic()
        self._forbidden = ""
        self._error: CrawlError | None = None
        self._pages: PageStore | None = None
        self._connection = sqlite3.connect(
            _uri(crawl.file, immutable), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            self._prepare(immutable)
        except BaseException:
            self.close()
            raise

    def _prepare(self, immutable: bool) -> None:
        connection, pages = self._connection, self._crawl.path.parent / PAGES
        if pages.exists():
            self._pages = PageStore(pages.parent, read_only=True, immutable=immutable, busy_seconds=_BUSY_SECONDS)
            connection.execute("ATTACH ? AS stored", (_uri(pages, immutable),))
        connection.execute("PRAGMA query_only = 1")
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.create_function("body", 1, self._body)
        connection.set_progress_handler(self._is_timed_out, _INSTRUCTIONS_PER_CHECK)
        connection.set_authorizer(self._authorize)

    def start(self, sql: str) -> QueryResult:
        with self._translated_errors():
            cursor = self._connection.execute(sql)
        if cursor.description is None:
            raise UsageError("this is not a query: it gives no rows", "Write one SELECT statement.")
        return QueryResult(tuple(column[0] for column in cursor.description), self._rows(cursor))

    def close(self) -> None:
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    def _rows(self, cursor: Any) -> Iterator[tuple[Any, ...]]:
        while True:
            with self._translated_errors():
                rows = cursor.fetchmany(_CHUNK_ROWS)
            if not rows:
                return
            yield from rows

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Count the time of a call to SQLite, and translate its errors."""
        self._resumed_at = time.monotonic()
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._translate(error) from error
        finally:
            self._computed += time.monotonic() - self._resumed_at

    def _translate(self, error: Exception) -> BaseException:
        text, code = str(error), getattr(error, "sqlite_errorcode", None)
        if self._forbidden:
            return UsageError(f"{self._forbidden}: `query` only reads", "Write one SELECT statement.")
        if self._error is not None:
            return self._error
        if "one statement at a time" in text:
            return UsageError("more than one statement", "Write one SELECT statement.")
        if code == sqlite3.SQLITE_INTERRUPT:
            if not self._is_timed_out():
                return KeyboardInterrupt()  # SQLite turns it into an error of its own
            return UsageError(
                f"the statement was stopped after {self._seconds:g} s", "Add a LIMIT, or a WHERE that uses an index."
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return DatabaseBusy(f"{self._crawl.path}: {text}", "Run the command again.")
        if code is None or code & 0xFF in _USER_ERROR_CODES:
            return UsageError(f"SQL: {text}", self._remedy(text))
        return StorageError(f"{self._crawl.path}: {text}", "Check the disk and the permissions of the data directory.")

    def _remedy(self, text: str) -> str:
        """Where to look for what a statement names; a dataDef is no table."""
        _, missing, name = text.partition("no such table: ")
        known = self._crawl.all("SELECT 1 FROM data_defs WHERE name = ? LIMIT 1", (name,)) if missing else []
        if not known:
            return "`PRAGMA table_list` and `PRAGMA table_info(NAME)` show the tables."
        of_name = f"data_def IN (SELECT id FROM data_defs WHERE name = '{name}')"
        return f"The rows of all dataDefs are in `rows`: SELECT data ->> '$.FIELD' FROM rows WHERE {of_name}"

    def _is_timed_out(self) -> bool:
        return self._computed + time.monotonic() - self._resumed_at > self._seconds

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and (first, second) in _HIDDEN_COLUMNS:
            return int(sqlite3.SQLITE_IGNORE)
        if action in _READ_ACTIONS:
            return int(sqlite3.SQLITE_OK)
        if action == sqlite3.SQLITE_FUNCTION and second not in _FORBIDDEN_FUNCTIONS:
            return int(sqlite3.SQLITE_OK)
        if action == sqlite3.SQLITE_PRAGMA and str(first).lower() in _READ_PRAGMAS:
            return int(sqlite3.SQLITE_OK)
        if action in _WRITE_ACTIONS:
            self._forbidden = f"the statement writes ({_WRITE_ACTIONS[action]} of {first})"
        elif action in _OTHER_ACTIONS:
            name = {sqlite3.SQLITE_PRAGMA: f" {first}", sqlite3.SQLITE_FUNCTION: f" {second}"}.get(action, "")
            self._forbidden = f"{_OTHER_ACTIONS[action]}{name} is not allowed"
        else:
            self._forbidden = "the statement changes the schema"
        return int(sqlite3.SQLITE_DENY)

    def _body(self, page: object) -> str | None:
        """SQL function: the text of a stored page; NULL where it is missing or binary."""
        if self._pages is None or not isinstance(page, int):
            return None
        try:
            metadata = documents.get_metadata(self._crawl, page)
            body = self._pages.read(page)
        except CrawlError as error:
            self._error = error
            raise
        if metadata is None or body is None:
            return None
        return self._decoder(body, metadata[2])


def _uri(path: Path, immutable: bool) -> str:
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
