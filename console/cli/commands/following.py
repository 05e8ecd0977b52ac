"""The commands `events` and `logs`: what happened, and what the processes wrote; with -f as long as the run goes on."""

import time
from pathlib import Path
from typing import Any

import orjson

from console.cli.log_reader import LogFile
from console.cli.output import write_lines
from console.client import has_supervisor, open_latest_run
from console.filter_syntax import TextSearch
from console.sanitize import clean
from engine.errors import StorageError, UsageError, suggest
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.filter import EventFilter, GlobFilter
from engine.store.tables import events as store
from engine.store.tables import runs
from engine.store.tables.events import Event

_LEVELS = ("INFO", "WARNING", "ERROR")
_POLL_SECONDS = 0.2
_PAGE_SIZE = 1_000
_TAIL_LINES = 10
"""Lines shown before those that are followed."""


def events(
    data: Path, *, follow: bool, level: str | None, pattern: str | None, limit: int | None, as_json: bool
) -> int:  # fmt: skip
    """Tell events of the latest run, the oldest first; 130 where a follower was interrupted.

    Raises UsageError, StorageError.
    """
    worse = _LEVELS[_LEVELS.index(level.upper()) :] if level else ()
    wanted = EventFilter(levels=GlobFilter(worse), searches=(TextSearch(pattern),) if pattern else ())
    shown = _json if as_json else _line
    try:
        with open_latest_run(data) as (db, run):
            number = run.seq
            # what comes while the first lines are told is followed: the end is noted before they are read
            end = store.last_id(db)
            size = limit or (_TAIL_LINES if follow else None)
            if size is None:
                _print_events(db, number, wanted, 0, end, shown)
            else:
                write_lines(shown(id_, event) for id_, event in _last_events(db, number, wanted, size, end + 1))
            while follow:
                alive = _has_supervisor_or_busy(db)
                end = _print_new_events(db, number, wanted, end, shown)
                newest = runs.latest(db)
                if newest is not None and newest.seq != number:
                    number = newest.seq
                elif not alive:
                    break
                else:
                    time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    return 0


def _print_new_events(db: Database, run: int, wanted: EventFilter, end: int, shown: Any) -> int:
    """Tell what came since; a busy database is asked again later."""
    try:
        newest = store.last_id(db)
        _print_events(db, run, wanted, end, newest, shown)
    except DatabaseBusy:
        return end
    return newest


def _has_supervisor_or_busy(db: Database) -> bool:
    try:
        return has_supervisor(db)
    except DatabaseBusy:
        return True


def _print_events(db: Database, run: int, wanted: EventFilter, after: int, upto: int, shown: Any) -> None:
    """Tell all lines above `after`, up to `upto`."""
    at: int | None = after
    while at is not None and at < upto:
        part = store.list_events(db, run, wanted, after=at, limit=_PAGE_SIZE)
        write_lines(shown(id_, event) for id_, event in part.events if id_ <= upto)
        at = part.next


def _last_events(db: Database, run: int, wanted: EventFilter, size: int, before: int) -> list[tuple[int, Event]]:
    """The last lines below `before`, however far back they lie."""
    found: list[tuple[int, Event]] = []
    at: int | None = before
    while at is not None and len(found) < size:
        part = store.list_events(db, run, wanted, before=at, limit=size - len(found))
        found = [*part.events, *found]
        at = part.next
    return found


def _json(id_: int, event: Event) -> str:
    return orjson.dumps({"id": id_, **event._asdict()}).decode()


def _line(_id: int, event: Event) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    return clean(f"{moment} {event.level:<7} {event.source:<10} {event.text}")


def logs(data: Path, name: str | None, *, follow: bool) -> int:
    """Show the logs of processes, with the name in front where there are several; 130 where it was interrupted.

    Raises UsageError where there is no such log, StorageError where one cannot be read.
    """
    folder = data / "logs"
    known = [path.stem for path in _log_files(folder)]
    waits = follow and _supervisor_alive(data)
    if name is not None and name not in known and not waits:
        raise UsageError(
            f"{folder}: no log of '{name}'{suggest(name, known)}", "`crawl-console status` tells the nodes."
        )
    if not known and not waits:
        raise UsageError(f"{data}: no logs yet", "Start a run with `crawl-console run`, or give --data.")
    tails: dict[str, LogFile] = {}
    try:
        first = True
        while True:
            alive = follow and _supervisor_alive(data)
            for path in _log_files(folder):
                if name in (None, path.stem) and path.stem not in tails:
                    tails[path.stem] = LogFile(path)
                    if first and follow:
                        tails[path.stem].seek_last_lines(_TAIL_LINES)
            for stem in sorted(tails, key=_natural_key):
                for line in tails[stem].read(include_partial=not alive):
                    write_lines([clean(line) if name else clean(f"{stem}: {line}")])
            first = False
            if not alive:
                return 0
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    finally:
        for tail in tails.values():
            tail.close()


def _log_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.log"), key=lambda path: _natural_key(path.stem))
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Mend its permissions.") from error


def _natural_key(name: str) -> tuple[int, str]:
    """`n10` behind `n9`, and others in front."""
    return (int(name[1:]) if name[:1] == "n" and name[1:].isdigit() else -1, name)


def _supervisor_alive(data: Path) -> bool:
    try:
        with open_latest_run(data) as (db, _):
            return has_supervisor(db)
    except UsageError:
        return False
    except DatabaseBusy:
        return True
