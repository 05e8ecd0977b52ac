"""The commands `events` and `logs`: what happened, and what the processes wrote; with -f as long as the run goes on."""

import time
from pathlib import Path
from typing import Any

import orjson

from console.cli.log_reader import LogFile
from console.cli.output import write
from console.client import governed, opened
from console.filter_syntax import Pattern
from console.sanitize import clean
from engine.errors import StorageError, UsageError, suggest
from engine.store.db.connector import Busy, Database
from engine.store.db.filter import EventFilter, Words
from engine.store.tables import events as store
from engine.store.tables import runs
from engine.store.tables.events import Event

_LEVELS = ("INFO", "WARNING", "ERROR")
_PAUSE = 0.2
_AT_ONCE = 1_000
_FOLLOWED = 10
"""Lines shown before those that are followed."""


def events(
    data: Path, *, follow: bool, level: str | None, pattern: str | None, limit: int | None, as_json: bool
) -> int:  # fmt: skip
    """Tell events of the latest run, the oldest first; 130 where a follower was interrupted.

    Raises UsageError, StorageError.
    """
    worse = _LEVELS[_LEVELS.index(level.upper()) :] if level else ()
    wanted = EventFilter(levels=Words(worse), searches=(Pattern(pattern),) if pattern else ())
    shown = _json if as_json else _line
    try:
        with opened(data) as (db, run):
            number = run.seq
            # what comes while the first lines are told is followed: the end is noted before they are read
            end = store.last(db)
            size = limit or (_FOLLOWED if follow else None)
            if size is None:
                _tell_from(db, number, wanted, 0, end, shown)
            else:
                write(shown(id_, event) for id_, event in _last(db, number, wanted, size, end + 1))
            while follow:
                alive = _patiently_governed(db)
                end = _follow(db, number, wanted, end, shown)
                newest = runs.latest(db)
                if newest is not None and newest.seq != number:
                    number = newest.seq
                elif not alive:
                    break
                else:
                    time.sleep(_PAUSE)
    except KeyboardInterrupt:
        return 130
    return 0


def _follow(db: Database, run: int, wanted: EventFilter, end: int, shown: Any) -> int:
    """Tell what came since; a busy database is asked again later."""
    try:
        newest = store.last(db)
        _tell_from(db, run, wanted, end, newest, shown)
    except Busy:
        return end
    return newest


def _patiently_governed(db: Database) -> bool:
    try:
        return governed(db)
    except Busy:
        return True


def _tell_from(db: Database, run: int, wanted: EventFilter, after: int, upto: int, shown: Any) -> None:
    """Tell all lines above `after`, up to `upto`."""
    at: int | None = after
    while at is not None and at < upto:
        part = store.page(db, run, wanted, after=at, limit=_AT_ONCE)
        write(shown(id_, event) for id_, event in part.events if id_ <= upto)
        at = part.next


def _last(db: Database, run: int, wanted: EventFilter, size: int, before: int) -> list[tuple[int, Event]]:
    """The last lines below `before`, however far back they lie."""
    found: list[tuple[int, Event]] = []
    at: int | None = before
    while at is not None and len(found) < size:
        part = store.page(db, run, wanted, before=at, limit=size - len(found))
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
    known = [path.stem for path in _files(folder)]
    waits = follow and _alive(data)
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
            alive = follow and _alive(data)
            for path in _files(folder):
                if name in (None, path.stem) and path.stem not in tails:
                    tails[path.stem] = LogFile(path)
                    if first and follow:
                        tails[path.stem].skip(_FOLLOWED)
            for stem in sorted(tails, key=_natural):
                for line in tails[stem].read(whole=not alive):
                    write([clean(line) if name else clean(f"{stem}: {line}")])
            first = False
            if not alive:
                return 0
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        return 130
    finally:
        for tail in tails.values():
            tail.close()


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.log"), key=lambda path: _natural(path.stem))
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Mend its permissions.") from error


def _natural(name: str) -> tuple[int, str]:
    """`n10` behind `n9`, and others in front."""
    return (int(name[1:]) if name[:1] == "n" and name[1:].isdigit() else -1, name)


def _alive(data: Path) -> bool:
    try:
        with opened(data) as (db, _):
            return governed(db)
    except UsageError:
        return False
    except Busy:
        return True
