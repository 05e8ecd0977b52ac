"""Events: append-only lines of what happened. Alone in writing `events`."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from engine.store.connector import Database

Level = Literal["INFO", "WARNING", "ERROR"]

_ADD = "INSERT INTO events (run, at, level, source, kind, job, text) {values}"
_AFTER = "SELECT id, at, level, source, kind, job, text FROM events WHERE id > ? AND run = ? ORDER BY id LIMIT ?"
_LAST = "SELECT max(id) FROM events"


class Event(NamedTuple):
    """One line. `at` is wall-clock seconds; `source` the process that saw it; `kind` what it is about."""

    at: float
    level: Level
    source: str
    kind: str
    text: str
    job: int | None = None


def add(db: Database, run: int | None, events: Sequence[Event]) -> None:
    """Append lines."""
    db.each(_ADD, [(run, e.at, e.level, e.source, e.kind, e.job, e.text) for e in events])


def after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, Event]]:
    """The next lines of a run, with their ids."""
    return [
        (id_, Event(at, level, source, kind, text, job))
        for id_, at, level, source, kind, job, text in db.all(_AFTER, (cursor, run, limit))
    ]


def last(db: Database) -> int:
    """The id of the newest line."""
    return int(db.value(_LAST) or 0)
