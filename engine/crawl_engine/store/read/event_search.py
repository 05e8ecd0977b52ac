"""Reads the matching lines of the log, page by page in both directions; each read is bounded."""

import time
from typing import NamedTuple

from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.filter import ALL_EVENTS, EventFilter, event_conditions, join_conditions
from crawl_engine.store.read.job_range import scan_ids
from crawl_engine.store.tables.run.events import COLUMNS, EventLine, last_id

_IN_WINDOW = f"""
SELECT {COLUMNS} FROM events WHERE id BETWEEN ? AND ? AND run = ?{{conditions}}
ORDER BY id {{order}} LIMIT +?
"""
_CHUNK = 1_000


class EventListing(NamedTuple):
    """A part of the log, oldest first. `next`: the id from which to continue; None: the end was reached."""

    events: tuple[EventLine, ...]
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
    matches: list[EventLine] = []
    deadline = time.monotonic() + seconds

    def read(start: int, end: int) -> list[EventLine]:
        return db.rows(EventLine, statement, (start, end, run, *values, size))

    for chunk, at in scan_ids(read, low, high, limit=size, backwards=back):
        for line in chunk:
            if event_filter.accepts(line.event.text):
                matches.append(line)
                if len(matches) == limit:
                    return _to_listing(matches, line.id, back)
        if at != (low if back else high) and time.monotonic() > deadline:
            return _to_listing(matches, at, back)
    return _to_listing(matches, None, back)


def _to_listing(matches: list[EventLine], next_: int | None, back: bool) -> EventListing:
    return EventListing(tuple(reversed(matches) if back else matches), next_)
