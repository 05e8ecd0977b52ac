"""Reads the matching lines of the log, page by page in both directions; each read is bounded."""

import time
from typing import NamedTuple

from engine.store.db.connector import Database
from engine.store.db.filter import ALL_EVENTS, EventFilter, event_conditions, join_conditions
from engine.store.tables.run.events import Event, last_id, to_event

_IN_WINDOW = """
SELECT id, at, level, source, kind, job, text FROM events WHERE id BETWEEN ? AND ? AND run = ?{conditions}
ORDER BY id {order} LIMIT +?
"""
_WINDOW = 20_000
_CHUNK = 1_000


class EventListing(NamedTuple):
    """A part of the log, oldest first. `next`: the id from which to continue; None: the end was reached."""

    events: tuple[tuple[int, Event], ...]
    next: int | None


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
        for id_, event in map(to_event, chunk):
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


def _to_listing(matches: list[tuple[int, Event]], next_: int | None, back: bool) -> EventListing:
    return EventListing(tuple(reversed(matches) if back else matches), next_)
