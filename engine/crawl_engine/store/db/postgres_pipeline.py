"""Sends statements whose results nobody reads with the next one: each answer costs a way."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psycopg

_WRITE = re.compile(r"\s*(WITH\b.*\b(INSERT INTO|UPDATE|DELETE FROM)|INSERT INTO|UPDATE|DELETE FROM)\b", re.DOTALL)
_MOST = 100


class Unread:
    """The cursor of a statement that waits; to read it sends the statement."""

    def __init__(self, text: str, values: Sequence[Any], send: Callable[[], Any]) -> None:
        self.text, self.values = text, values
        self.cursor: psycopg.RawCursor[Any] | None = None
        self._send = send

    @property
    def description(self) -> None:
        """It returns no rows."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        if self.cursor is None:
            self._send()
        return -1 if self.cursor is None else self.cursor.rowcount


class WriteQueue:
    """The waiting statements of one transaction, in their order."""

    def __init__(self) -> None:
        self._waiting: list[Unread] = []

    def add(self, text: str, values: Sequence[Any], send: Callable[[], Any]) -> Unread:
        """Have a statement wait. `send`: sends all that wait."""
        if len(self._waiting) >= _MOST:
            send()
        self._waiting.append(Unread(text, values, send))
        return self._waiting[-1]

    def forget(self) -> None:
        """Drop what waits."""
        self._waiting = []

    def send(self, connection: "psycopg.Connection[Any]", text: str = "", values: Sequence[Any] = ()) -> Any:
        """Run what waits, then this statement; returns its cursor. Raises psycopg.Error, the first one."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return run(connection, text, values) if text else None
        with connection.pipeline():
            for unread in waiting:
                unread.cursor = run(connection, unread.text, unread.values)
            return run(connection, text, values) if text else None


@lru_cache(2_000)
def is_unread(text: str) -> bool:
    """Whether a statement only writes: it returns no rows."""
    return _WRITE.match(text) is not None and "RETURNING" not in text


def run(connection: "psycopg.Connection[Any]", text: str, values: Sequence[Any]) -> "psycopg.RawCursor[Any]":
    """Run a statement. A text of PostgreSQL cannot hold NUL characters: they are replaced. Raises psycopg.Error."""
    try:
        return connection.execute(text, values)  # type: ignore[return-value]
    except psycopg.DataError as error:
        if "NUL" not in str(error):
            raise
    return connection.execute(text, [_without_nul(value) for value in values])  # type: ignore[return-value]


def _without_nul(value: Any) -> Any:
    """A value of a statement, or a list of such."""
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
