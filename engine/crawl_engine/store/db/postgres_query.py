"""Runs one reading statement of a user in PostgreSQL: its words decide what it may reach.

Tables with hidden columns stand before the statement as expressions of the same names, where these columns are NULL. So
it may name no schema. Its functions are those of PostgreSQL that read nothing by themselves.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.store.db.database import Database
from crawl_engine.store.db.postgres import PostgresDatabase
from crawl_engine.store.db.postgres_schema import read_tables

_BUSY_SECONDS = 5.0
_CHUNK_ROWS = 1_000
_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+|--[^\n\r]*|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/)|(?P<nested>/\*)|(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")|(?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<sign>[-+*/<>=~!@#%^&|`?,.()\[\]:;])""",
    re.VERBOSE,
)
_JOINED = {("word", "text"), ("number", "text"), ("number", "word"), ("number", "quoted")}
_ESCAPED = {("text", "&"), ("quoted", "&")}
_LONGEST_NAME = 63
"""PostgreSQL cuts longer ones."""
_READING = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname = ANY($1) LIMIT 1"
# all that read files, other sessions, settings or tables by name are volatile, or named here, or begin with pg_
_FUNCTIONS = """
SELECT proname FROM pg_proc WHERE proname = ANY($1) AND proname NOT IN ('random', 'clock_timestamp')
    AND (provolatile = 'v' OR proname ~ '_to_xml|^current_setting$') LIMIT 1
"""
_USER_ERRORS = ("0A", "21", "22", "25006", "2BP", "42", "54")
"""The beginnings of the codes of errors that are the statement's own."""
_CANCELLED, _UNDEFINED_TABLE = "57014", "42P01"


@contextlib.contextmanager
def open_statement(
    crawl: Database, sql: str, hidden: Mapping[str, str], seconds: float
) -> Iterator[tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]]:
    """The columns of a statement and its rows, read as they are consumed. `hidden`: by table the column that is NULL.

    Raises UsageError, StorageError, DatabaseBusy.
    """
    assert isinstance(crawl, PostgresDatabase)
    sql, names = _check(sql)
    db = PostgresDatabase(crawl.location, crawl.path, busy_seconds=_BUSY_SECONDS)
    statement = _ServerCursor(db, seconds)
    try:
        with db.snapshot():
            for lookup, of_kind, problem in (
                (_SCHEMAS, names.qualifiers, "names the schema"), (_FUNCTIONS, names.functions, "calls the function")
            ):  # fmt: skip
                if (found := db.value(lookup, (sorted(of_kind),))) is not None:
                    raise _refusal(f"the statement {problem} {found}")
            yield statement.start(_with_hidden_columns(sql, hidden, db.schema))
    finally:
        db.close()


class _Names(NamedTuple):
    """The names of a statement that stand before a dot, and before a bracket."""

    qualifiers: set[str]
    functions: set[str]


class _ServerCursor:
    """A cursor that is read in chunks. The time its rows wait for their reader does not count."""

    def __init__(self, db: PostgresDatabase, seconds: float) -> None:
        self._db = db
        self._seconds = self._left = seconds

    def start(self, text: str) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
        self._run(  # before the statement is parsed
            f"SET LOCAL search_path = {self._db.schema}; SET LOCAL standard_conforming_strings = on;"
            " SET LOCAL cursor_tuple_fraction = 1; SET LOCAL idle_in_transaction_session_timeout = 0"
        )
        self._run(f"DECLARE statement NO SCROLL CURSOR FOR {text}")
        first = self._fetch()
        return tuple(column.name for column in first.description), self._rows(first)

    def _rows(self, cursor: Any) -> Iterator[tuple[Any, ...]]:
        while rows := cursor.fetchall():
            yield from rows
            cursor = self._fetch()

    def _fetch(self) -> Any:
        limit = max(1, int(self._left * 1000))
        cursor = self._run(f"SET LOCAL statement_timeout = {limit}; FETCH {_CHUNK_ROWS} statement")
        cursor.nextset()
        return cursor

    def _run(self, text: str) -> Any:
        begun = time.monotonic()
        try:
            return self._db.run_script(text)
        except CrawlError as error:
            cause: Any = error.__cause__
            state = getattr(cause, "sqlstate", None) or ""
            if state == _CANCELLED:
                hint = "Add a LIMIT, or a WHERE that uses an index."
                raise UsageError(f"the statement was stopped after {self._seconds:g} s", hint) from error
            if state.startswith(_USER_ERRORS):
                hint = f"Write PostgreSQL's SQL. The tables are {', '.join(read_tables())}."
                if state == _UNDEFINED_TABLE:
                    hint = "The rows of all dataDefs are in the table `rows`, in its column `data`. " + hint
                raise UsageError(f"SQL: {cause.diag.message_primary}", hint) from error
            raise
        finally:
            self._left -= time.monotonic() - begun


def _check(sql: str) -> tuple[str, _Names]:
    """A statement without its last semicolon, and its names. Raises UsageError for what is not one that reads."""
    tokens, at, before = list[tuple[str, str]](), 0, ""
    end = len(sql)
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        kind = str(found.lastgroup) if found else "unknown"
        # PostgreSQL reads a quote after a letter, and a letter after a digit, in ways of its own
        if found is None or kind == "nested" or (before, kind) in _JOINED or (kind, sql[at - 1 : at]) in _ESCAPED:
            raise UsageError(
                f"SQL: cannot read `{sql[at : at + 20]}`",
                "Write plain texts, names and comments, a space between them.",
            )
        if kind != "space":
            if found.group() == ";":
                end = min(end, at)
            elif end < at:
                raise UsageError("more than one statement", "Write one SELECT statement.")
            else:
                tokens.append((kind, found.group()))
        at, before = found.end(), kind
    if not tokens:
        raise UsageError("this is not a query: it gives no rows", "Write one SELECT statement.")
    if tokens[0][1].upper() not in _READING:
        raise _refusal(tokens[0][1])
    return sql[:end], _read_names(tokens)


def _read_names(tokens: Sequence[tuple[str, str]]) -> _Names:
    names = _Names(set(), set())
    for (_, previous), (kind, said), (_, following) in zip(
        [("", ""), *tokens], tokens, [*tokens[1:], ("", "")], strict=False
    ):
        if kind not in {"word", "quoted"}:
            continue
        name = said.lower() if kind == "word" else said[1:-1].replace('""', '"')
        if name.startswith("pg_") or len(name.encode()) > _LONGEST_NAME or (previous, following) == (".", "("):
            raise _refusal(f"the statement names {name}")
        if following == ".":
            names.qualifiers.add(name)
        elif following == "(":
            names.functions.add(name)
    return names


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"{what}: `query` only reads the tables of the crawl", "Write one SELECT statement; name tables without schema."
    )


def _with_hidden_columns(sql: str, hidden: Mapping[str, str], schema: str) -> str:
    """The statement behind expressions that hide the tables with hidden columns."""
    tables = read_tables()
    expressions = ", ".join(
        f"{table} AS NOT MATERIALIZED (SELECT "
        + ", ".join(f"NULL::{type_} AS {name}" if name == column else name for name, type_ in tables[table].items())
        + f" FROM {schema}.{table})"
        for table, column in hidden.items()
    )
    return f"WITH {expressions} SELECT * FROM (\n{sql}\n) AS statement"
