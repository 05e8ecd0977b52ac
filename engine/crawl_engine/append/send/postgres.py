"""Writes rows to PostgreSQL: rows, deletions and the position of the appender in one transaction.

So each change is there exactly once, whatever ends between its commit and the acknowledgement. The position is per run,
in the table `_crawl_console`. If it is behind what was acknowledged, as after a restored backup or a dropped table, all
rows of the run are written again.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import psycopg
from msgspec import Struct
from psycopg import conninfo
from psycopg.abc import PQGen

from crawl_engine.append.formats.writer import Batch
from crawl_engine.append.loop.lifeline import StopSignal
from crawl_engine.append.loop.turns import OutputFailed, SupervisorGone
from crawl_engine.append.send.delivery_batch import DeliveryBatch
from crawl_engine.append.send.postgres_table import CONSOLE_TABLE, Connection, PostgresTable, UnfitTable
from crawl_engine.append.send.sent_rows import DataDir, SentRows
from crawl_engine.errors import Fenced
from crawl_engine.model.variables import UnusableVariable, render_secrets

_T = TypeVar("_T")
_CONNECT_SECONDS = 5
_OLDEST = 150_000
_LOCK = 4_871_236_905
"""Of `pg_advisory_xact_lock`: only one crawl prepares tables at a time."""
_CREATE = f"""
CREATE TABLE {CONSOLE_TABLE} (
    data_def text NOT NULL, run text NOT NULL, data_dir text NOT NULL, path text NOT NULL, last_row bigint NOT NULL,
    withdrawal bigint NOT NULL, epoch bigint NOT NULL, overwritten boolean NOT NULL, stale boolean NOT NULL,
    table_oid bigint NOT NULL, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (data_def, run)
)
"""
_ADD = f"INSERT INTO {CONSOLE_TABLE} VALUES (%s, %s, %s, %s, 0, 0, 0, false, false, %s) ON CONFLICT DO NOTHING"
_ADD_RUN = f"""
INSERT INTO {CONSOLE_TABLE} SELECT data_def, %s, data_dir, path, 0, 0, 0, false, false, table_oid
FROM {CONSOLE_TABLE} WHERE data_def = %s AND run = '' ON CONFLICT DO NOTHING
"""
_OWNER = f"SELECT data_dir, path FROM {CONSOLE_TABLE} WHERE data_def = %s AND run = ''"
_FORGET = f"DELETE FROM {CONSOLE_TABLE} WHERE data_def = %s AND table_oid <> %s"
_NEWEST = f"SELECT coalesce(max(last_row), 0) FROM {CONSOLE_TABLE} WHERE data_def = %s"
_GET = f"""
SELECT last_row, withdrawal, epoch, overwritten, stale FROM {CONSOLE_TABLE} WHERE data_def = %s AND run = %s FOR UPDATE
"""
_SET = f"""
UPDATE {CONSOLE_TABLE} SET last_row = %s, withdrawal = %s, epoch = %s, overwritten = %s, stale = %s, updated_at = now()
WHERE data_def = %s AND run = %s
"""
_MOVE = f"UPDATE {CONSOLE_TABLE} SET last_row = greatest(last_row, %s) WHERE data_def = %s AND run = %s"
_RUNS = f"SELECT run, last_row FROM {CONSOLE_TABLE} WHERE data_def = %s AND run <> ''"
_STARTING = re.compile("starting up|not yet accepting connections|in recovery mode")
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true),
    set_config('synchronous_commit', 'on', true), set_config('lock_timeout', %s, true)
"""


class _Position(Struct):
    """What a table has of a run: up to which row and which withdrawal."""

    row: int = 0
    withdrawal: int = 0
    epoch: int = 0
    overwritten: bool = False
    """Whether a row replaced another one with its key: that one may have to come back."""
    stale: bool = False
    """Whether such a row was deleted, and what it replaced is not looked for yet."""


class PostgresTarget:
    """A `DeliveryTarget` at a database."""

    def __init__(
        self, url: str, tables: Mapping[str, PostgresTable], source: SentRows, *, epoch: int, limit: float,
        stop: StopSignal,
    ) -> None:  # fmt: skip
        """`url`: as in the defs, with variables. `limit`: seconds for one step of a batch."""
        self._url = url
        self._tables = tables
        self._source = source
        self._epoch = epoch
        self._limit = limit
        self._stop = stop
        self._db: _Connection | None = None
        self._types: dict[str, list[int]] = {}
        """By dataDef whose table is prepared in this connection: the types of its columns."""

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:
        """Write the batch. Raises OutputFailed, SupervisorGone."""
        try:
            with self._transaction() as db:
                self._write(db, self._tables[data_def], batch)
        except (psycopg.Error, TimeoutError) as error:
            raise OutputFailed(describe(error), starting=_is_starting(error)) from None
        except UnfitTable as error:
            raise OutputFailed(error.message, error.remedy) from None

    def close(self) -> None:
        """Close the connection."""
        db, self._db = self._db, None
        self._types.clear()
        if db is not None:
            db.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction; an error ends its connection."""
        try:
            if self._db is None or self._db.closed:
                self._types.clear()
                self._db = connect(self._url, self._limit, self._stop)
            with transaction(self._db, self._limit) as db:
                yield db
        except BaseException:
            self.close()
            raise

    def _write(self, db: Connection, table: PostgresTable, batch: DeliveryBatch) -> None:
        source, name = self._source, table.name
        acknowledged = source.position(name)
        is_new = name not in self._types
        if is_new:
            self._types[name] = prepare(db, table, source.data_dir, source.last_given_row())
        types = self._types[name]
        added = db.execute(_ADD_RUN, (source.run, name)).rowcount > 0
        at = _Position(*(db.execute(_GET, (name, source.run)).fetchone() or ()))
        if at.epoch > self._epoch:
            raise Fenced(f"{name}: another appender has written to the table", "It goes on.")
        if added or (is_new and self._is_behind(at, acknowledged.cursor, acknowledged.withdrawal, name)):
            table.delete_range(db, *source.row_range())
            at.stale = at.stale or at.overwritten
            for rows in source.read(source.run, name, 0, acknowledged.cursor):
                at.overwritten |= table.insert(db, rows, types)
            at.row, at.withdrawal = acknowledged.cursor, acknowledged.withdrawal
        gone = [change.row for change in batch.changes if change.withdrawal > at.withdrawal]
        if gone and table.delete(db, gone):
            at.stale = at.stale or at.overwritten
        new = [(change.row, change.data) for change in batch.changes if not change.withdrawal and change.row > at.row]
        if new:
            at.overwritten |= table.insert(db, new, types)
        at.row, at.withdrawal = max(at.row, batch.row), max(at.withdrawal, batch.withdrawal)
        if at.stale and not source.has_more(name, at.row, at.withdrawal):
            self._bring_back(db, table, at)
        values = (at.row, at.withdrawal, self._epoch, at.overwritten, at.stale)
        db.execute(_SET, (*values, name, source.run))

    def _is_behind(self, at: _Position, row: int, withdrawal: int, name: str) -> bool:
        """Whether the table lacks changes that were acknowledged."""
        return at.withdrawal < withdrawal or any(self._source.read(self._source.run, name, at.row, row))

    def _bring_back(self, db: Connection, table: PostgresTable, at: _Position) -> None:
        """Insert the rows that a row with their key had replaced, which is deleted since. Rows that stand stay."""
        for run, last in db.execute(_RUNS, (table.name,)).fetchall():
            upto = at.row if run == self._source.run else last
            for rows in self._source.read(run, table.name, 0, upto):
                table.insert(db, rows, self._types[table.name], may_exist=True)
        at.stale = False


def prepare(db: Connection, table: PostgresTable, data_dir: DataDir, last_given_row: int) -> list[int]:
    """Create what is missing of the table; returns its types. Raises UnfitTable."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    if db.execute("SELECT to_regclass(%s)", (CONSOLE_TABLE,)).fetchone() == (None,):
        db.execute(_CREATE)  # needs a right that the tables themselves may not need
    oid, types = table.prepare(db)
    db.execute(_FORGET, (table.name, oid))  # the table was dropped, and is another one now
    db.execute(_ADD, (table.name, "", data_dir.identity, data_dir.path, oid))
    [(owner, path)] = db.execute(_OWNER, (table.name,)).fetchall()
    if owner != data_dir.identity:
        raise UnfitTable(
            f"the table {table.name} is written by another data directory, {path}",
            "Give each its own schema: `?options=-csearch_path%3DNAME` in `url`.",
        )
    [(newest,)] = db.execute(_NEWEST, (table.name,)).fetchall()
    if newest > last_given_row:
        raise UnfitTable(
            f"the table {table.name} has rows up to {newest}, and this data directory only up to {last_given_row}: "
            "it is an older copy",
            "Drop the table: the rows of the run are then written again.",
        )
    return types


def prepare_tables(
    url: str, tables: Sequence[PostgresTable], data_dir: DataDir, last_given_row: int, *, limit: float
) -> str:
    """Create what is missing of the tables; returns why the database cannot be reached, or an empty text.

    Raises CrawlError if a table cannot take its rows.
    """
    try:
        with contextlib.closing(connect(url, limit)) as connection, transaction(connection, limit) as db:
            for table in tables:
                prepare(db, table, data_dir, last_given_row)
    except (psycopg.OperationalError, TimeoutError) as error:
        return describe(error)
    except psycopg.Error as error:
        raise UnfitTable(describe(error), "Fix it in the database, or use another.") from None
    return ""


class ExportedTable(NamedTuple):
    """A table, and the rows of a run that it gets."""

    table: PostgresTable
    rows: Iterable[Batch]


def export_tables(
    url: str, tables: Iterable[ExportedTable], data_dir: DataDir, last_given_row: int, *, run: str, ids: tuple[int, int]
) -> None:
    """Write rows of a run in place of those that the tables have of it, in one transaction.

    `ids`: the first id of the run's rows, and the end. An appender of the run continues behind these rows.
    Raises UnfitTable, and OutputFailed if the server fails.
    """
    try:
        with contextlib.closing(connect(url, 0)) as connection, transaction(connection, 0) as db:
            for table, batches in tables:
                types, last = prepare(db, table, data_dir, last_given_row), 0
                db.execute(_GET, (table.name, run))  # an appender waits until the end
                table.delete_range(db, *ids)
                for batch in batches:
                    table.insert(db, batch, types)
                    last = batch[-1][0]
                db.execute(_MOVE, (last, table.name, run))
    except psycopg.Error as error:
        raise OutputFailed(describe(error), "Check the server, and the rights of the user.") from None


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection each of whose steps ends at a limit, and when the supervisor is gone."""

    limit = 0.0
    stop: StopSignal | None = None

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        return super().wait(self._watch(gen), interval, timeout)

    def _watch(self, gen: PQGen[_T]) -> PQGen[_T]:
        deadline = time.monotonic() + self.limit if self.limit else None
        try:
            state = next(gen)
            while True:
                ready = yield state
                if self.stop is not None and self.stop.supervisor_gone:
                    self.pgconn.finish()
                    raise SupervisorGone
                if deadline is not None and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise TimeoutError(f"no answer for its limit of {self.limit:g} s")
                state = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result


def connect(url: str, limit: float, stop: StopSignal | None = None) -> _Connection:
    """A connection to the database of `url`, which may hold variables. Raises OutputFailed, psycopg's errors."""
    try:
        rendered = render_secrets(url, os.environ, lambda value: quote(value, safe=""))
        parameters = conninfo.conninfo_to_dict(rendered)
    except UnusableVariable as error:
        raise OutputFailed(str(error)) from None
    except psycopg.ProgrammingError:
        raise OutputFailed("its url is not a valid URL of PostgreSQL") from None  # psycopg quotes it
    parameters = {"connect_timeout": _CONNECT_SECONDS, "fallback_application_name": "crawl-console", **parameters}
    db = _Connection.connect("", autocommit=True, prepare_threshold=None, **parameters)  # type: ignore[arg-type]
    db.limit, db.stop = limit, stop
    if db.info.server_version < _OLDEST:
        db.close()
        raise OutputFailed(f"PostgreSQL {db.info.server_version // 10_000} is too old; 15 is needed")
    return db


@contextlib.contextmanager
def transaction(db: _Connection, limit: float) -> Iterator[Connection]:
    """A transaction whose commit is durable. Dates are in UTC; a lock is awaited for at most `limit` seconds."""
    with db.transaction():
        db.execute(_SETTINGS, (str(int(limit * 1000)),))
        yield db


def _is_starting(error: Exception) -> bool:
    """Whether the server says that it starts or recovers; libpq gives a refused connection no SQLSTATE."""
    return _STARTING.search(str(error)) is not None


def describe(error: Exception) -> str:
    """What failed, in one line."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = " ".join((primary or str(error)).split())
    return f"PostgreSQL: {text}" if primary else text or type(error).__name__
