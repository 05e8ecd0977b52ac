"""A connection to the PostgreSQL schema of a crawl: one writer at a time, as in SQLite.

Nothing lives in a session that PgBouncer may share. Only where it does not, statements are prepared, and the session
has settings for their plans.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.runtime.clock import store_clock
from crawl_engine.store.db.database import Database
from crawl_engine.store.db.dialect import Dialect
from crawl_engine.store.db.file_header import PAGES
from crawl_engine.store.db.location import Location
from crawl_engine.store.db.postgres_errors import translate
from crawl_engine.store.db.postgres_pipeline import WriteQueue, is_unread
from crawl_engine.store.db.postgres_schema import STATE, ServerState, read_tables, render_schema
from crawl_engine.store.db.retry_busy import DatabaseBusy
from crawl_engine.urls import without_passwords

_MOST_CONNECTIONS = 6
"""Connections of one process, whatever number of `Database` it has open: each holds one only while it works."""
_TYPICAL_CONNECTIONS = 3
_CONNECT_SECONDS = 3
_PREPARED_AFTER = 2
_IDLE_SECONDS = 2
"""A transaction whose process says nothing for so long is ended, so that a machine that is cut off blocks no other."""
_PLANS = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off"
"""A plan is kept while a table grows from nothing: it must use the indexes from the beginning, as SQLite does."""
_END_SILENT_WRITERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = $1
    AND wait_event LIKE 'Client%' AND state_change < clock_timestamp() - interval '3 s'
"""
"""The server's own limit does not hold for a client that vanishes in the middle of a statement, or of several."""
_VALUES_AT_ONCE = 1_000
_AWAY_PAUSE, _LEAST_WAIT_FOR_A_PLACE = 0.1, 5.0
_ASK_SECONDS, _ASK_PAUSE = 60.0, 0.1
"""How long a process asks whether its commit, whose answer was lost, was carried out."""
_BLOCKED_BUSY_SECONDS = 0.05
_USED_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
WHERE relkind = 'r' AND relnamespace = to_regnamespace($1)
"""
_TEXT_TYPES = (
    "json", "jsonb", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "inet", "cidr",
)  # fmt: skip
"""Types that come as text: the store has no columns of them, users' statements may."""


class PostgresDatabase(Database):
    """crawl.db or pages.db of a data dir, as tables of one schema. Both have a write lock of their own."""

    is_shared = True

    def __init__(self, location: Location, path: Path, *, durable: bool = True, busy_seconds: float) -> None:
        super().__init__(path, busy_seconds, durable)
        self.location = location
        self._connections = _connections(location.url, os.getpid())
        self._dialect = _dialect(location.project)
        lock = location.project if path.name != PAGES else f"{location.project} {PAGES}"
        self._lock = int.from_bytes(blake2b(lock.encode(), digest_size=8).digest(), signed=True)
        self._held: psycopg.Connection[Any] | None = None
        self._transaction = 0
        """Id of the open write transaction; 0: none is open."""
        self._queue = WriteQueue()
        self._reads = 0
        self._has_tables: bool | None = None
        """None: nobody has asked."""

    @property
    def schema(self) -> str:
        """The quoted name of the schema."""
        return self._dialect.schema

    @property
    def _clock(self) -> str:
        """SQL: the clock of deadlines, in seconds; it goes on where the clock of the server is set."""
        shift = f" + (SELECT shift FROM {self.schema}.clock)" if self._has_tables is not False else ""
        return f"extract(epoch FROM clock_timestamp())::float8{shift}"

    def close(self) -> None:
        """Give the connection back; safe to repeat."""
        self._rollback()

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """A cursor on one statement; it has all rows already. Raises DatabaseBusy, StorageError."""
        text, names = self._dialect.render(sql)
        return self._run(text, [parameters[name] for name in names] if isinstance(parameters, dict) else parameters)

    def execute_values(
        self, sql: str, rows: Sequence[Sequence[Any]], *, leading: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """As in Database: the rows are sent as an array for each column."""
        returned: list[tuple[Any, ...]] = []
        for part in self._dialect.split(sql, rows):
            for start in range(0, len(part), _VALUES_AT_ONCE):
                cursor = self._run(*self._dialect.values(sql, part[start : start + _VALUES_AT_ONCE], leading))
                if cursor.description:
                    returned += cursor.fetchall()
        return returned

    def take_ids(self, table: str, count: int) -> list[int]:
        """As in Database; no transaction takes back what the sequence gave."""
        text = f"SELECT nextval('{self.schema}.{table}_id_seq') FROM generate_series(1, $1)"
        return [int(row[0]) for row in self._run(text, (count,)).fetchall()]

    def insert_large(self, table: str, values: Mapping[str, Any], large: Mapping[str, memoryview]) -> int:
        """As in Database."""
        sql = f"INSERT INTO {table} ({', '.join([*values, *large])}) {{values}} RETURNING id"
        return int(self.execute_values(sql, [[*values.values(), *map(bytes, large.values())]])[0][0])

    def run_script(self, text: str) -> Any:
        """Run PostgreSQL's own statements, inside the open transaction; returns their cursor."""
        assert self._held is not None
        self._send()
        try:
            return self._held.execute(text.encode(), prepare=False)
        except psycopg.Error as error:
            raise self._translate_error(error) from error

    def _run(self, text: str, values: Sequence[Any], *, seconds: float | None = None) -> Any:
        """`seconds`: how long a server that is away is waited for; None: as for a busy one."""
        if self._transaction and is_unread(text):
            return self._queue.add(text, values, self._send)
        if self._held is not None:
            if text == "ROLLBACK TO part":  # what waits is of this part
                self._queue.forget()
            return self._run_on(self._held, text, values)

        def run(connection: "psycopg.Connection[Any]") -> Any:
            try:
                if not store_clock().is_followed and self._has_tables:
                    store_clock().follow(self._run_on(connection, f"SELECT {self._clock}", ()).fetchone()[0])
                return self._run_on(connection, text, values)
            finally:
                self._connections.give(connection)

        return self._on_connection(run, self.busy_seconds if seconds is None else seconds)

    def _on_connection(self, work: Callable[["psycopg.Connection[Any]"], Any], seconds: float) -> Any:
        """Call `work` with a connection, and with another one where it is lost, until `seconds` have passed.

        One that was idle may be dead, and a server that starts again is away for a moment.
        """
        deadline, fresh = time.monotonic() + seconds, False
        while True:
            connection = None
            try:
                connection = self._connections.take(max(seconds, _LEAST_WAIT_FOR_A_PLACE), fresh=fresh)
                return work(connection)
            except psycopg.Error as error:
                failure = self._translate_error(error)
            except DatabaseBusy as busy:
                if connection is None or not connection.broken:
                    raise
                failure = busy
            if not isinstance(failure, DatabaseBusy) or time.monotonic() >= deadline:
                raise failure
            if connection is None or fresh:
                time.sleep(_AWAY_PAUSE)
            fresh = True

    def _run_on(self, connection: "psycopg.Connection[Any]", text: str, values: Sequence[Any]) -> Any:
        try:
            return self._queue.send(connection, text, values)
        except psycopg.Error as error:
            raise self._translate_error(error) from error

    def _send(self) -> None:
        """Send the statements that wait."""
        if self._held is not None:
            self._run_on(self._held, "", ())

    def _begin_write(self, *, durable: bool, shared: bool) -> None:
        begun = time.monotonic()
        limit = self.busy_seconds if self.blocked_since is None else min(self.busy_seconds, _BLOCKED_BUSY_SECONDS)
        text = (
            f"BEGIN; SET LOCAL lock_timeout = {max(1, round(limit * 1000))}; "
            f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'; "
            + ("" if durable else "SET LOCAL synchronous_commit = off; ")
            + f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({self._lock}); "
            f"SELECT pg_current_xact_id()::text, {self._clock}"
        )
        try:
            answer = self._begin(text, limit)
        except DatabaseBusy as busy:
            self.blocked_since = self.blocked_since or begun
            if isinstance(busy.__cause__, errors.LockNotAvailable):
                self._run(_END_SILENT_WRITERS, (self._lock,))
            raise
        self.blocked_since = None
        while answer.nextset():
            pass
        transaction, seconds = answer.fetchone()
        self._transaction = int(transaction)
        if step := store_clock().follow(seconds):  # the deadlines of all machines go on as if nothing had happened
            self.execute("UPDATE clock SET shift = clock.shift - ?", (step,))

    def _begin_read(self) -> None:
        self._begin(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = '60s'",
            self.busy_seconds,
        )

    def _begin(self, text: str, seconds: float) -> Any:
        """Open a transaction."""
        assert self._held is None, "a transaction is open"

        def begin(connection: "psycopg.Connection[Any]") -> Any:
            try:
                answer = self._run_on(connection, text, ())
            except BaseException:
                self._end(connection)
                raise
            self._held = connection
            return answer

        return self._on_connection(begin, seconds)

    def _commit(self) -> None:
        connection, transaction = self._held, self._transaction
        if connection is None:  # the server has ended the transaction meanwhile
            raise DatabaseBusy(f"{self._name}: the connection was lost", "The write is retried.")
        try:
            if self._queue.send(connection, "COMMIT").statusmessage != "COMMIT":
                raise StorageError(f"{self._name}: a write failed before its end", "This is a bug in crawl-console.")
        except psycopg.OperationalError as error:
            if not transaction or not connection.broken:
                raise self._translate_error(error) from error
            self._forget_held()
            if not self._was_committed(transaction):
                raise self._translate_error(error) from error
            return
        except psycopg.Error as error:
            raise self._translate_error(error) from error
        self._forget_held()

    def _was_committed(self, transaction: int) -> bool:
        """Ask whether a transaction whose COMMIT got no answer was carried out. Raises StorageError after a minute."""
        deadline = time.monotonic() + _ASK_SECONDS
        while True:
            try:
                status = self._run("SELECT pg_xact_status($1::text::xid8)", (str(transaction),)).fetchone()[0]
            except DatabaseBusy as error:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"{self._name}: cannot be asked whether the last write was carried out",
                        "This process ends; others continue its work.",
                    ) from error
            else:
                if status != "in progress":
                    return bool(status == "committed")
            time.sleep(_ASK_PAUSE)

    def _rollback(self) -> None:
        if self._held is not None:
            connection = self._held
            self._forget_held(give=False)
            self._end(connection)

    def _end(self, connection: "psycopg.Connection[Any]") -> None:
        """Give back a connection whose transaction is over, whatever its state."""
        with contextlib.suppress(psycopg.Error):
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        self._connections.give(connection)

    def _forget_held(self, *, give: bool = True) -> None:
        connection, self._held, self._transaction = self._held, None, 0
        self._queue.forget()
        if give and connection is not None:
            self._connections.give(connection)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open and its connection lives."""
        return self._held is not None and not self._held.broken

    def has_tables(self) -> bool:
        """Whether the schema has the tables of a crawl. Raises OtherDatabase, StorageError if they cannot be ours."""
        return bool(self._has_tables) or self._check_state().has_crawl

    def create_tables(self) -> None:
        """Create what the schema lacks. Several processes may call it at once. Raises OtherDatabase, StorageError."""
        self._check_state().check_writable(self._name)
        if not self._has_tables:
            with self.creating():
                pass

    @contextlib.contextmanager
    def creating(self) -> Iterator[bool]:
        """A write transaction in which the tables are new; False: another process was faster."""
        self._check_state()
        with self.transaction():
            state = self._check_state()
            if not state.has_crawl:
                self.run_script("" if state.has_schema else f"CREATE SCHEMA {self.schema};")
                self.run_script(render_schema(self.schema))
                self.run_script("SET LOCAL idle_in_transaction_session_timeout = 0")  # the caller may fill them
            yield not state.has_crawl
        self._has_tables = True

    def run_native(self, text: str, values: Sequence[Any] = ()) -> Any:
        """A cursor on a statement of PostgreSQL's own. Raises DatabaseBusy, StorageError."""
        return self._run(text, values)

    @contextlib.contextmanager
    def copying(self, text: str, types: Sequence[str]) -> Iterator[Any]:
        """A COPY in the open transaction. Raises DatabaseBusy, StorageError."""
        assert self._held is not None
        try:
            with self._held.cursor().copy(text) as copy:
                copy.set_types(types)
                yield copy
        except psycopg.Error as error:
            raise self._translate_error(error) from error

    def check_connections(self, processes: int) -> None:
        """Raise StorageError if the server itself, without PgBouncer, has too few connections for a run."""
        needed, state = processes * _TYPICAL_CONNECTIONS, self._read_state()
        if needed > state.free_connections and not state.is_shared:
            raise StorageError(
                f"{self._name}: {state.free_connections} connections are free; {processes} processes need {needed}",
                "Raise max_connections of the server, put PgBouncer in between, or start fewer --nodes.",
            )

    def _check_state(self) -> ServerState:
        """Raises OtherDatabase, StorageError if the tables of the schema cannot be ours."""
        state = self._read_state()
        state.check(self._name)
        self._has_tables = state.has_crawl
        return state

    def _read_state(self) -> ServerState:
        cursor = self._run(STATE, (self.schema,), seconds=0.0)  # at the start, whoever named it wants to know at once
        state = dict(zip([column.name for column in cursor.description], cursor.fetchone(), strict=True))
        return ServerState(**state | {"is_shared": state["is_shared"] != cursor.connection.info.backend_pid})

    def resize_cache(self, kilobytes: int | None) -> None:
        """Do nothing: the cache is the server's."""

    @property
    def data_version(self) -> int:
        """Another number at each call: nothing cheap says whether others have committed."""
        self._reads += 1
        return self._reads

    @property
    def free_bytes(self) -> int:
        """0: the server uses free space again by itself."""
        return 0

    @property
    def used_bytes(self) -> int:
        """The bytes of all tables and indexes of the schema."""
        return int(self._run(_USED_BYTES, (self.schema,)).fetchone()[0])

    @property
    def _name(self) -> str:
        return f"{without_passwords(self.location.url)} ({self.location.project})"

    def _translate_error(self, error: psycopg.Error) -> CrawlError:
        return translate(error, self._name)


class _Connections:
    """The connections of one process to one database: a `Database` takes one for a statement or a transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[psycopg.Connection[Any]] = []
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def take(self, seconds: float, *, fresh: bool = False) -> "psycopg.Connection[Any]":
        """A connection, idle or new. Raises psycopg.OperationalError after `seconds` without a free one.

        `fresh`: those that are idle may be dead, and are closed.
        """
        if not self._places.acquire(timeout=seconds):
            raise psycopg.OperationalError(f"all {_MOST_CONNECTIONS} connections of this process are in use")
        try:
            while fresh and self._idle:
                with contextlib.suppress(IndexError):
                    self._idle.pop().close()
            with contextlib.suppress(IndexError):
                return self._idle.pop()
            return self._connect()
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: "psycopg.Connection[Any]") -> None:
        """Give a connection back; one whose transaction is not over is closed."""
        if connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        self._places.release()

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(
            self._url, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor,
            connect_timeout=_CONNECT_SECONDS, tcp_user_timeout=_CONNECT_SECONDS * 1000,
            keepalives_idle=_CONNECT_SECONDS, keepalives_interval=1, keepalives_count=2,
            application_name="crawl-console",
        )  # fmt: skip
        adapters = connection.adapters
        adapters.register_dumper(int, Int8Dumper)
        adapters.register_dumper(bool, _BoolDumper)
        adapters.register_loader("numeric", _NumberLoader)
        for name in _TEXT_TYPES:
            adapters.register_loader(name, _TextLoader)
        # without a pooler in between: the plan is half of the cost of a statement
        if connection.execute("SELECT pg_backend_pid()").fetchall() == [(connection.info.backend_pid,)]:
            connection.prepare_threshold = _PREPARED_AFTER
            connection.execute(_PLANS)
        return connection


class _BoolDumper(Int8Dumper):
    """Booleans as SQLite has them: 0 and 1."""

    def dump(self, obj: Any) -> Any:
        return b"1" if obj else b"0"


class _NumberLoader(Loader):
    """Sums of whole numbers are whole numbers, all others fractions."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


class _TextLoader(Loader):
    """As text: the store decodes JSON itself."""

    def load(self, data: Any) -> str:
        return bytes(data).decode()


@cache
def _connections(url: str, pid: int) -> _Connections:  # noqa: ARG001
    """The connections of this process; `pid`: a fork has its own."""
    return _Connections(url)


@cache
def _dialect(project: str) -> Dialect:
    return Dialect(f'"{project}"', read_tables())
