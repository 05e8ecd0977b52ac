"""Writes the table `commands`: orders of an operator to the running supervisor."""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson
from msgspec import Struct

from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event

_SUBMIT = """
INSERT INTO commands (supervisor, name, arguments, given_at, given_by) VALUES (?, ?, ?, ?, ?) RETURNING id
"""
_RECORD = """
INSERT INTO commands (supervisor, name, arguments, state, answer, given_at, ended_at, given_by)
VALUES ((SELECT max(epoch) FROM supervisors), ?, ?, 'DONE', ?, ?, ?, ?)
"""
_NEW = """
SELECT id, CAST(name AS BLOB), coalesce(substr(CAST(arguments AS BLOB), 1, ?), x''), given_by FROM commands
WHERE supervisor = ? AND state = 'NEW' ORDER BY id LIMIT +?
"""
_END = "UPDATE commands SET state = ?, answer = ?, ended_at = ? WHERE id = ? AND state = 'NEW'"
_LAST_GIVER = """
SELECT given_by FROM commands WHERE name = ? AND arguments = '{}' AND state = 'DONE' ORDER BY id DESC LIMIT 1
"""
_EXPIRE = """
UPDATE commands SET state = 'EXPIRED', ended_at = ?
WHERE state = 'NEW' AND supervisor NOT IN (SELECT epoch FROM supervisors WHERE ended_at IS NULL)
"""


class Command(Struct, frozen=True):
    """A command not yet carried out, as it was written: any program may have written it."""

    id: int
    name: str
    arguments: bytes
    """JSON, if it is valid."""
    given_by: str | None = None
    """Who gave it over HTTP; None: a command or a console of this machine."""


def submit(
    db: Database, supervisor: int, name: str, arguments: dict[str, Any], now: float, given_by: str | None = None
) -> int:  # fmt: skip
    """Submit a command to the supervisor with that epoch; returns the command's id."""
    return int(db.value(_SUBMIT, (supervisor, name, orjson.dumps(arguments).decode(), now, given_by)))


def log_done(
    db: Database, run: int, name: str, answer: str, arguments: Mapping[str, Any] = MappingProxyType({}),
    given_by: str | None = None,
) -> None:  # fmt: skip
    """Record in the open transaction what an operator did without a supervisor: an event, and a command over HTTP."""
    now = time.time()
    events.add(db, run, [Event(now, "INFO", given_by or "operator", "command", f"{name}: {answer}")])
    if given_by is not None:
        db.execute(_RECORD, (name, orjson.dumps(dict(arguments)).decode(), answer, now, now, given_by))


def list_new(db: Database, supervisor: int, *, limit: int, max_bytes: int) -> list[Command]:
    """The oldest new commands for this supervisor. `max_bytes`: where longer arguments are cut off."""
    rows = db.all(_NEW, (max_bytes, supervisor, limit))
    return [Command(id_, name.decode("utf-8", "replace"), arguments, by) for id_, name, arguments, by in rows]


def end(db: Database, command: int, *, done: bool, answer: str, now: float) -> None:
    """Record that a command was carried out, or refused."""
    db.execute(_END, ("DONE" if done else "REFUSED", answer, now, command))


def last_giver(db: Database, name: str) -> str | None:
    """Who last had a command of the whole run carried out; None: a local one, or nobody."""
    row = db.one(_LAST_GIVER, (name,))
    return None if row is None or row[0] is None else str(row[0])


def expire(db: Database, now: float) -> None:
    """Give up what supervisors that have ended did not carry out."""
    db.execute(_EXPIRE, (now,))


def hand_over(db: Database, command: int, supervisor: int) -> None:
    """Have another machine carry out a command: it owns the node that the command names."""
    db.execute("UPDATE commands SET supervisor = ? WHERE id = ? AND state = 'NEW'", (supervisor, command))


def get_answer(db: Database, command: int) -> tuple[str, str]:
    """State and answer of a command."""
    row = db.one("SELECT state, answer FROM commands WHERE id = ?", (command,))
    assert row is not None
    return str(row[0]), str(row[1] or "")
