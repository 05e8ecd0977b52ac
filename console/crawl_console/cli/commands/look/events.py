"""The command `events`: shows the events of a run; with -f those of the latest until it ends."""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import Number, choice, common_options, empty_without_run, lines_option, run_option
from crawl_console.cli.output import write_json, write_lines
from crawl_console.format import format_date_time
from crawl_engine.errors import UsageError

if TYPE_CHECKING:
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.db.filter import EventFilter
    from crawl_engine.store.tables.run.events import Event

_LEVELS = ("INFO", "WARNING", "ERROR")
_POLL_SECONDS = 0.2
_PAGE_SIZE = 1_000
_TAIL_LINES = 10
"""Lines shown before the followed ones."""


@click.command()
@click.option("-f", "follow", is_flag=True, help="Follow new events until the run ends.")
@click.option("--level", type=choice([level.lower() for level in _LEVELS]), help="Only this level and worse.")
@click.option("--match", metavar="FILTER", help="Only these: a regular expression for the text, or terms as source:n1.")
@click.option("--limit", type=Number(), metavar="N", help="The last N; default: all, with -f 10.")
@lines_option
@run_option
@common_options("data")
@empty_without_run
def events(
    follow: bool, level: str | None, match: str | None, limit: int | None, as_json: bool, run_id: str | None, data: Path
) -> int:
    """Show the events of a run, oldest first."""
    from crawl_console.client import has_supervisor, open_latest_run
    from crawl_console.filter_syntax import event_filter
    from crawl_engine.store.db.connector import DatabaseBusy
    from crawl_engine.store.tables.run import events as table
    from crawl_engine.store.tables.run import runs

    if follow and run_id is not None:
        raise UsageError("-f follows the latest run", "Leave out --run, or -f.")
    filter_ = event_filter(match, _LEVELS[_LEVELS.index(level.upper()) :] if level else ())
    write = _write_json if as_json else _write_lines
    try:
        with open_latest_run(data, run_id=run_id) as (db, run):
            seq = run.seq
            # read the end first: events that arrive while the first lines are printed are followed, not lost
            last = table.last_id(db)
            size = limit or (_TAIL_LINES if follow else None)
            if size is None:
                _write_events(db, seq, filter_, 0, last, write)
            else:
                write(_last_events(db, seq, filter_, size, last + 1))
            while follow:
                alive = True
                with contextlib.suppress(DatabaseBusy):
                    alive = has_supervisor(db)
                with contextlib.suppress(DatabaseBusy):
                    newest_event = table.last_id(db)
                    _write_events(db, seq, filter_, last, newest_event, write)
                    last = newest_event
                newest = runs.latest(db)
                if newest is not None and newest.seq != seq:
                    seq = newest.seq
                elif not alive:
                    break
                else:
                    time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    return 0


def _write_events(
    db: "Database", run: int, filter_: "EventFilter", after: int, upto: int,
    write: "Callable[[Iterable[tuple[int, Event]]], None]",
) -> None:  # fmt: skip
    """Write the events above `after`, up to `upto`."""
    from crawl_engine.store.read.event_search import list_events

    cursor: int | None = after
    while cursor is not None and cursor < upto:
        page = list_events(db, run, filter_, after=cursor, limit=_PAGE_SIZE)
        write((id_, event) for id_, event in page.events if id_ <= upto)
        cursor = page.next


def _last_events(db: "Database", run: int, filter_: "EventFilter", size: int, before: int) -> "list[tuple[int, Event]]":
    """The last `size` events below `before`."""
    from crawl_engine.store.read.event_search import list_events

    newest: list[tuple[int, Event]] = []
    cursor: int | None = before
    while cursor is not None and len(newest) < size:
        page = list_events(db, run, filter_, before=cursor, limit=size - len(newest))
        newest = [*page.events, *newest]
        cursor = page.next
    return newest


def _write_json(events_: "Iterable[tuple[int, Event]]") -> None:
    from crawl_console.crawl.status import event_as_dict

    write_json(*(event_as_dict(id_, event) for id_, event in events_))


def _write_lines(events_: "Iterable[tuple[int, Event]]") -> None:
    write_lines(
        *(f"{format_date_time(event.at)} {event.level:<7} {event.source:<10} {event.text}" for _, event in events_)
    )
