"""Writes the table `events`: the append-only log of what happened."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from engine.store.db.connector import Database, id_list
from engine.store.db.filter import ALL_EVENTS, EventFilter, event_conditions, join_conditions

Level = Literal["INFO", "WARNING", "ERROR"]

_ADD = "INSERT INTO events (run, at, level, source, kind, job, text) {values}"
_AFTER = "SELECT id, at, level, source, kind, job, text FROM events WHERE id > ? AND run = ? ORDER BY id LIMIT +?"
_LAST = "SELECT max(id) FROM events"
_IN_WINDOW = """
SELECT id, at, level, source, kind, job, text FROM events WHERE id BETWEEN ? AND ? AND run = ?{conditions}
ORDER BY id {order} LIMIT +?
"""
_OF_JOB = "SELECT id, at, level, source, kind, job, text FROM events WHERE job = ? ORDER BY id DESC LIMIT +?"
_BY_IDS = """
SELECT id, at, level, source, kind, job, text FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC
"""
_WINDOW = 20_000
_CHUNK = 1_000
_TEXTS = "SELECT DISTINCT text FROM events WHERE run = ? AND kind = ? AND id > ? ORDER BY id LIMIT +?"


class Event(NamedTuple):
    """One line. `at`: wall-clock seconds; `source`: the process that wrote it; `kind`: its subject."""

    at: float
    level: Level
    source: str
    kind: str
    text: str
    job: int | None = None


class EventListing(NamedTuple):
    """A part of the log, oldest first. `next`: the id from which to continue; None: the end was reached."""

    events: tuple[tuple[int, Event], ...]
    next: int | None


def add(db: Database, run: int | None, events: Sequence[Event]) -> None:
    """Append lines."""
    db.execute_values(_ADD, [(run, e.at, e.level, e.source, e.kind, e.job, e.text) for e in events])


def list_after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, Event]]:
    """The next lines of a run, with their ids."""
    return [_to_event(row) for row in db.all(_AFTER, (cursor, run, limit))]


def list_events(
    db: Database, run: int, event_filter: EventFilter = ALL_EVENTS, *, after: int = 0, before: int | None = None,
    limit: int = 50, seconds: float = 0.25,
) -> EventListing:  # fmt: skip
    """The first matching lines with an id above `after`, or, with `before`, the last ones below it.

    Searches for about `seconds` at most; pass `next` as `after` (or `before`) to continue.
    Raises UsageError if a search's pattern is too slow.
    """
    sql, values = join_conditions(event_conditions(event_filter, time.time()))
    back = before is not None
    statement = _IN_WINDOW.format(conditions=sql, order="DESC" if back else "ASC")
    low, high, size = after + 1, last_id(db), _CHUNK if event_filter.searches else limit
    if before is not None:
        high = min(high, before - 1)
    matches: list[tuple[int, Event]] = []
    deadline = time.monotonic() + seconds
    at: int | None = None
    while low <= high:
        start, end = (max(low, high - _WINDOW + 1), high) if back else (low, min(high, low + _WINDOW - 1))
        chunk = db.all(statement, (start, end, run, *values, size))
        for id_, event in map(_to_event, chunk):
            if event_filter.accepts(event.text):
                matches.append((id_, event))
                if len(matches) == limit:
                    return _to_listing(matches, id_, back)
        full = len(chunk) == size
        if back:
            at = chunk[-1][0] if full else start
            high = at - 1
        else:
            at = chunk[-1][0] if full else end
            low = at + 1
        if low <= high and time.monotonic() > deadline:
            return _to_listing(matches, at, back)
    return _to_listing(matches, None, back)


def list_by_job(db: Database, job: int, limit: int) -> list[tuple[int, Event]]:
    """The last lines about a job, oldest first."""
    return [_to_event(row) for row in reversed(db.all(_OF_JOB, (job, limit)))]


def list_by_ids(db: Database, ids: Iterable[int]) -> list[tuple[int, Event]]:
    """These lines, the newest first."""
    return [_to_event(row) for row in db.all(_BY_IDS, (id_list(ids),))]


def last_id(db: Database) -> int:
    """The id of the newest line."""
    return int(db.value(_LAST) or 0)


def list_texts(db: Database, run: int, kind: str, after: int, limit: int) -> list[str]:
    """Distinct texts of the first events of a kind after an event id."""
    return [str(row[0]) for row in db.all(_TEXTS, (run, kind, after, limit))]


def _to_listing(matches: list[tuple[int, Event]], next_: int | None, back: bool) -> EventListing:
    return EventListing(tuple(reversed(matches) if back else matches), next_)


def _to_event(row: tuple[Any, ...]) -> tuple[int, Event]:
    id_, at, level, source, kind, job, text = row
    return id_, Event(at, level, source, kind, text, job)
