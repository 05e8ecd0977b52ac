"""The log as pages show it: folded as in the console, searched until there is a page."""

import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from crawl_console.format import format_date_time, format_latency, format_time
from crawl_console.web.watch import Watch
from crawl_console.words.job_lines import LEVEL_ROLES
from crawl_console.words.log_folding import FoldedLines
from crawl_engine.store.db.filter import EventFilter
from crawl_engine.store.tables.run.events import EventLine

SEARCH_SECONDS = 5.0
"""How long a list is searched on while it has no page; the link behind it continues."""
_FOLDED_LINES, _CHUNK, _MAX_EVENTS = 60, 500, 10_000


class ShownLines(Struct, frozen=True):
    """Lines, newest first, and the pages that went well and have none, by host."""

    lines: Sequence[Mapping[str, str]]
    went_well: Sequence[str] = ()


class LogPage(Struct, frozen=True):
    shown: ShownLines
    older: int | None
    """The id before which the next page begins."""


def log_lines(events: Iterable[EventLine], *, fold: bool = True, fold_pages: bool = False) -> ShownLines:
    """The lines of events that come oldest first."""
    folded = FoldedLines()
    folded.extend(((one.id, one.event) for one in events), fold=fold, fold_pages=fold_pages)
    folded.sort()
    lines = []
    for line in reversed(folded.lines):
        text, tail, path = line.describe()
        event = line.event
        lines.append(
            {
                "key": str(line.id), "time": format_time(event.at), "at": format_date_time(event.at),
                "level": event.level, "role": LEVEL_ROLES[event.level], "source": event.source,
                "text": f"{text}{tail}{'  ' if path else ''}{path}",
                "job": str(event.job) if event.job is not None and line.count == 1 else "",
            }
        )  # fmt: skip
    went_well = [
        f"{host} last {pages.count:,} ok" + (f", p50 {format_latency(median(pages.seconds))}" if pages.seconds else "")
        for host, pages in reversed(folded.pages.items())
    ]
    return ShownLines(lines, went_well)


async def find_lines(watch: Watch, run: int, filter_: EventFilter, before: int, size: int, *, fold: bool) -> LogPage:
    """A page of the log before an event. Each read is short; it is searched on until there is a page."""
    found: list[EventLine] = []
    older: int | None = before
    deadline = time.monotonic() + SEARCH_SECONDS
    fold_pages = fold and not filter_.searches
    while True:
        begin = older
        room = max(_CHUNK, len(found)) if fold else size - len(found)  # all of them are folded anew each time
        listing = await watch.ask(
            lambda source: source.listed_events(run, filter_, begin or source.last_event_id() + 1, room)  # noqa: B023
        )
        found = [*listing.events, *found]
        older = listing.next
        shown = log_lines(found, fold=fold, fold_pages=fold_pages)
        is_full = len(shown.lines) >= _FOLDED_LINES or len(found) >= _MAX_EVENTS if fold else len(found) >= size
        if older is None or is_full or time.monotonic() > deadline:
            return LogPage(shown, older)
