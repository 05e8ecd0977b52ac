"""A connection to the store, whichever engine it has: statements, transactions, many rows at once."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from functools import lru_cache
from json import JSONDecodeError
from operator import itemgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import DecodeError, Struct, json

from crawl_engine.errors import StorageError
from crawl_engine.store.db.retry_busy import DatabaseBusy as DatabaseBusy

BUSY_SECONDS = 30.0
DAMAGE_REMEDY = "Restore it from a copy, or use another --data directory."
_ROWS_AT_ONCE = 1_000
_R = TypeVar("_R", bound=Hashable)
_PLAIN = {int, float, str, bytes, Any}
"""Types of fields whose values come as they are."""


class Database(ABC):
    """One connection, used by one thread at a time. Every write happens inside `transaction()`."""

    is_shared: bool
    """Whether several machines may use it."""

    def __init__(self, path: Path, busy_seconds: float, durable: bool = True) -> None:
        self.path = path
        """The file; on PostgreSQL the one that the data dir would have."""
        self.file = path
        """What is open: `path`, or a temporary copy of it."""
        self.busy_seconds = busy_seconds
        self.blocked_since: float | None = None
        """Monotonic second since which other writers have blocked every transaction of this connection."""
        self.guard: Callable[[], None] | None = None
        """Called at the begin of each write transaction: raises Fenced where this process may not write any more."""
        self._durable = durable

    @abstractmethod
    def close(self) -> None:
        """Close the connection; safe to repeat."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """A cursor on one statement. Raises DatabaseBusy, StorageError."""

    def fetch(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()
    ) -> tuple[Sequence[Sequence[Any]], list[tuple[Any, ...]]]:
        """The columns of a statement, each with its name first, and every row."""
        cursor = self.execute(sql, parameters)
        return cursor.description, cursor.fetchall()

    def all(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Every row of a statement."""
        return self.fetch(sql, parameters)[1]

    def rows(self, kind: type[_R], sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[_R]:
        """Every row as a struct or named tuple whose fields have the names of the columns.

        JSON, truth values and states become what the type of their field says. Raises TypeError for another name.
        """
        columns, rows = self.fetch(sql, parameters)
        read = _reader(kind, tuple([column[0] for column in columns]))
        try:
            return read(rows)
        except (ValueError, DecodeError) as error:
            raise self._explain_value(error) from error

    def iterate(self, kind: type[_R], sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Iterator[_R]:
        """As `rows`, for more rows than fit in memory."""
        cursor = self.execute(sql, parameters)
        read = _reader(kind, tuple([column[0] for column in cursor.description]))
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            try:
                structs = read(rows)
            except (ValueError, DecodeError) as error:
                raise self._explain_value(error) from error
            yield from structs

    def find_damage(self) -> str:
        """What of the file is damaged, for people; empty: nothing that a check finds."""
        return ""

    @contextlib.contextmanager
    def explain_json(self) -> Iterator[None]:
        """Raise StorageError, which names the database, for stored JSON that is none."""
        try:
            yield
        except (JSONDecodeError, DecodeError) as error:
            raise self._explain_value(error) from error

    def _explain_value(self, error: Exception) -> StorageError:
        """The error for a stored value that is none: each was written by a version of this program."""
        return StorageError(f"{self.path}: damaged (a stored value cannot be read: {error})", DAMAGE_REMEDY)

    def row(self, kind: type[_R], sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> _R | None:
        """The first row as `rows` gives it, or None."""
        return next(iter(self.rows(kind, sql, parameters)), None)

    def column(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """The first column of every row."""
        return [row[0] for row in self.all(sql, parameters)]

    def one(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""
        rows = self.all(sql, parameters)
        return rows[0] if rows else None

    def value(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.one(sql, parameters)
        return None if row is None else row[0]

    @abstractmethod
    def execute_values(
        self, sql: str, rows: Sequence[Sequence[Any]], *, leading: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Run `sql`, whose `{values}` stands for a VALUES list, over many rows; returns the rows of RETURNING.

        `leading` fills the placeholders before `{values}`.
        """

    @abstractmethod
    def take_ids(self, table: str, count: int) -> list[int]:
        """New ids for rows that this transaction adds: no row of the table ever had one of them."""

    @abstractmethod
    def insert_large(self, table: str, values: Mapping[str, Any], large: Mapping[str, memoryview]) -> int:
        """Insert a row some of whose last columns are large; returns its id. Raises DatabaseBusy, StorageError."""

    def transaction(self) -> contextlib.AbstractContextManager["Database"]:
        """One write transaction: all of it is committed, or nothing is. Raises DatabaseBusy, StorageError, Fenced."""
        return self._write(durable=self._durable)

    def shared_transaction(self) -> contextlib.AbstractContextManager["Database"]:
        """A write transaction that only adds rows: where the engine can do it, several run at once.

        Raises DatabaseBusy, StorageError, Fenced.
        """
        return self._write(durable=self._durable, shared=True)

    def light_transaction(self) -> contextlib.AbstractContextManager["Database"]:
        """A write transaction without fsync: a power loss may undo it, until a later durable one is committed.

        For writes that are made again where they are missing. Raises DatabaseBusy, StorageError, Fenced.
        """
        return self._write(durable=False)

    @contextlib.contextmanager
    def _write(self, *, durable: bool, shared: bool = False) -> Iterator["Database"]:
        self._begin_write(durable=durable, shared=shared)
        try:
            if self.guard is not None:
                self.guard()
            yield self
            self._commit()
        except BaseException:
            self._rollback()
            raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator["Database"]:
        """One consistent read over several statements. Raises StorageError for stored JSON that is none."""
        self._begin_read()
        try:
            with self.explain_json():
                yield self
            self._commit()
        except BaseException:
            self._rollback()
            raise

    def best_effort_write(self, work: Callable[[], None]) -> None:
        """Run an optional write in a transaction; skip it while the database is busy."""
        with contextlib.suppress(DatabaseBusy), self.transaction():
            work()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator["Database"]:
        """A part of a transaction that is rolled back alone if it fails."""
        self.execute("SAVEPOINT part")
        try:
            yield self
            self.execute("RELEASE part")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK TO part")
                self.execute("RELEASE part")
            raise

    @abstractmethod
    def _begin_write(self, *, durable: bool, shared: bool) -> None: ...

    @abstractmethod
    def _begin_read(self) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open: an error of the disk or the connection ends it, savepoints included."""

    @abstractmethod
    def has_tables(self) -> bool:
        """Whether the database has its tables; False while another process creates them."""

    @abstractmethod
    def resize_cache(self, kilobytes: int | None) -> None:
        """Let the page cache of this connection grow to this size; None: to the usual one."""

    @property
    @abstractmethod
    def data_version(self) -> int:
        """A number that changes when another connection commits."""

    @property
    @abstractmethod
    def free_bytes(self) -> int:
        """The bytes of the file that hold nothing: later writes use them."""

    @property
    @abstractmethod
    def used_bytes(self) -> int:
        """The bytes that hold something, also those that are still in the write-ahead log."""


@lru_cache(1_000)
def _reader(kind: type[_R], names: tuple[str, ...]) -> Callable[[Sequence[Sequence[Any]]], list[_R]]:
    """Makes structs of rows with these columns. Checks the names once, so that fields may be filled by position."""
    types = get_type_hints(kind)
    fields = tuple(dict.fromkeys([name.partition(".")[0] for name in names]))
    if unknown := [field for field in fields if field not in types]:
        raise TypeError(f"{kind.__name__} has no field {', '.join(unknown)}")
    readers = [_field_reader(field, types[field], names) for field in fields]
    # fields that have to be named are not among these
    is_in_order = kind.__match_args__[: len(fields)] == fields  # type: ignore[attr-defined]
    if is_in_order and all(isinstance(reader, itemgetter) for reader in readers):
        return lambda rows: [kind(*row) for row in rows]
    if is_in_order:
        return lambda rows: [kind(*[read(row) for read in readers]) for row in rows]
    by_name = dict(zip(fields, readers, strict=True))
    return lambda rows: [kind(**{field: read(row) for field, read in by_name.items()}) for row in rows]


def _field_reader(field: str, hint: Any, names: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    """Reads a field of a row. A struct within the struct has columns `field.name`; it is None where the first is."""
    (kind,) = {*get_args(hint)} - {NoneType} if isinstance(hint, UnionType) else {hint}
    if field not in names:
        of_field = [(place, name.partition(".")[2]) for place, name in enumerate(names) if name.startswith(f"{field}.")]
        read = _reader(kind, tuple([name for _, name in of_field]))
        first, end = of_field[0][0], of_field[-1][0] + 1
        return lambda row: None if row[first] is None else read([row[first:end]])[0]
    place = names.index(field)
    if kind in _PLAIN or get_origin(kind) is Literal:
        return itemgetter(place)
    convert = kind if isinstance(kind, type) and issubclass(kind, (bool, Enum)) else json.Decoder(kind).decode
    return lambda row: None if row[place] is None else convert(row[place])


def json_row(kind: type[Struct]) -> str:
    """SQL: the columns of the row `one` as a JSON array, in the order of a struct's fields."""
    return "json_array(" + ", ".join(f'one."{name}"' for name in kind.__struct_fields__) + ")"


def placeholders(items: Iterable[Any]) -> str:
    """`?,?,?` for an IN list."""
    return ",".join("?" for _ in items)


def id_list(ids: Iterable[int]) -> str:
    """The ids as JSON, for `json_each`."""
    return "[" + ",".join(map(str, ids)) + "]"


_State = TypeVar("_State", bound=StrEnum)


def source_states(table: Mapping[_State, frozenset[_State]], *targets: _State) -> str:
    """The states from which a transition to each of `targets` is allowed, as an SQL list: `('READY', 'TAKEN')`."""
    states = ", ".join(f"'{state}'" for state, allowed in table.items() if allowed.issuperset(targets))
    return f"({states or 'NULL'})"
