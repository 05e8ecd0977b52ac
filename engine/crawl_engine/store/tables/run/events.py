"""Writes the table `events`: the append-only log of what happened."""

import time
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome

Level = Literal["INFO", "WARNING", "ERROR"]

URL_FOLLOWS = "  "
"""A text with this end continues with the URL of its job: the table does not repeat it."""
TEXT = f"""
text || CASE WHEN text LIKE '%{URL_FOLLOWS}' THEN coalesce((SELECT url FROM jobs WHERE jobs.id = job), '')
    ELSE '' END
"""
"""The whole text of an event."""
COLUMNS = f"""
id, at AS "event.at", level AS "event.level", source AS "event.source", kind AS "event.kind", {TEXT} AS "event.text",
    job AS "event.job"
"""
"""Those of an `EventLine`."""

_ADD = "INSERT INTO events (run, at, level, source, kind, job, text) {values}"
_AFTER = f"SELECT {COLUMNS} FROM events WHERE id > ? AND run = ? ORDER BY id LIMIT +?"
_TROUBLE = f"""
SELECT {COLUMNS} FROM events WHERE run = ? AND level <> 'INFO' AND id > ? AND id <= ? ORDER BY id DESC LIMIT +?
"""
_OF_JOB = f"SELECT {COLUMNS} FROM events WHERE job = ? ORDER BY id DESC LIMIT +?"
_BY_IDS = f"SELECT {COLUMNS} FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC"
_DELETE_OLD = """
DELETE FROM events WHERE id IN (
    SELECT id FROM events WHERE at < ? AND run IS NOT ? ORDER BY id LIMIT +?)
"""
_DROP_OLD = "SELECT drop_old_events(CAST(:before AS REAL), CAST(:run AS INTEGER))"
"""PostgreSQL has a partition for each run, and empties those whose newest event is old."""
_TEXTS = """
SELECT text FROM events WHERE run = ? AND kind = ? AND id > ? GROUP BY text ORDER BY min(id) LIMIT +?
"""


class Event(Effect):
    """One line. `at`: wall-clock seconds; `source`: the process that wrote it; `kind`: its subject."""

    at: float
    level: Level
    source: str
    kind: str
    text: str
    job: int | None = None


class EventLine(NamedTuple):
    id: int
    event: Event


def write(commit: Commit, made: Sequence[tuple[JobOutcome, Event]]) -> None:
    add(commit.db, commit.run, [event for _, event in made])


def add(db: Database, run: int | None, events: Sequence[Event]) -> None:
    db.execute_values(_ADD, [(run, e.at, e.level, e.source, e.kind, e.job, e.text) for e in events])


def log(db: Database, run: int, level: Level, kind: str, text: str, *, source: str = "supervisor") -> None:
    """Add one event of now."""
    add(db, run, [Event(time.time(), level, source, kind, text)])


def delete_old(db: Database, before: float, *, except_run: int, limit: int) -> int:
    """Delete some events from before a moment, but those of one run; returns how many."""
    with db.light_transaction():
        if db.is_shared:
            db.execute(_DROP_OLD, {"before": before, "run": except_run})
        return int(db.execute(_DELETE_OLD, (before, except_run, limit)).rowcount)


def list_after(db: Database, run: int, cursor: int, limit: int) -> list[EventLine]:
    return db.rows(EventLine, _AFTER, (cursor, run, limit))


def list_trouble(db: Database, run: int, after: int, upto: int, limit: int) -> list[EventLine]:
    """The last warnings and errors of a run with ids between these, oldest first."""
    return db.rows(EventLine, _TROUBLE, (run, after, upto, limit))[::-1]


def list_by_job(db: Database, job: int, limit: int) -> list[EventLine]:
    """The last lines about a job, oldest first."""
    return db.rows(EventLine, _OF_JOB, (job, limit))[::-1]


def list_by_ids(db: Database, ids: Iterable[int]) -> list[EventLine]:
    """These lines, the newest first."""
    return db.rows(EventLine, _BY_IDS, (id_list(ids),))


def last_id(db: Database) -> int:
    return int(db.value("SELECT max(id) FROM events") or 0)


def list_texts(db: Database, run: int, kind: str, after: int, limit: int) -> list[str]:
    """Distinct texts of the first events of a kind after an event id."""
    return db.column(_TEXTS, (run, kind, after, limit))
