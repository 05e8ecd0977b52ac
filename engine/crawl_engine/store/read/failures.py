"""Reads why jobs of a run failed: by reason and host, and the first failed jobs for a summary."""

from typing import NamedTuple

import orjson

from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event, EventLine

_FAILURES = """
SELECT coalesce(target, url), reason FROM jobs WHERE run = ? AND state = 'FAILED' AND page IS NULL
ORDER BY coalesce(changed_at, 0), id LIMIT +?
"""
_GROUPS = """
SELECT h.key, f.reason, sum(f.jobs) AS jobs, json_group_array(DISTINCT s.grp)
FROM {first} CROSS JOIN failures f ON f.sequence = s.id WHERE h.run = :run AND s.kind = 'page'
GROUP BY h.key, f.reason ORDER BY jobs DESC, h.key, f.reason LIMIT +:limit
"""
_GROUPS_OF_RUN = _GROUPS.format(first="sequences s CROSS JOIN hosts h ON h.id = s.host AND s.run = :run")
_GROUPS_OF_HOST = _GROUPS.format(first="hosts h CROSS JOIN sequences s ON s.host = h.id AND h.key = :host")
_TIMES = """
SELECT j.changed_at FROM hosts h CROSS JOIN sequences s ON s.host = h.id CROSS JOIN jobs j ON j.sequence = s.id
WHERE h.run = ? AND h.key = ? AND s.kind = 'page' AND j.state = 'FAILED' AND j.reason = ?
    AND j.changed_at IS NOT NULL AND j.page IS NULL LIMIT +?
"""
_BOUNDS = """
SELECT h.key, coalesce(j.reason, ''), min(j.changed_at), max(j.changed_at)
FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host
WHERE j.run = ? AND j.state = 'FAILED' AND j.page IS NULL AND s.kind = 'page' AND j.changed_at IS NOT NULL
GROUP BY h.key, j.reason
"""
_ERRORS_OF_HOST = """
SELECT e.id FROM (
        SELECT id, job FROM events WHERE run = :run AND level <> 'INFO' ORDER BY id DESC LIMIT +:searched) e
    CROSS JOIN jobs j ON j.id = e.job CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host
WHERE h.key = :host ORDER BY e.id DESC LIMIT +:limit
"""
_SEARCHED_EVENTS, _SEARCHED_FOR_FEW = 20_000, 2_000
_MAX_TIMES = 20_000


class FailureGroup(NamedTuple):
    """The failed pages of a host (`name:port`) with the same reason, and the groups they are of."""

    host: str
    reason: str
    jobs: int
    groups: tuple[str, ...]


class HostErrors(NamedTuple):
    """Why pages of a host failed, and its newest warnings and errors, with their ids."""

    groups: tuple[FailureGroup, ...]
    events: tuple[EventLine, ...]


def list_failures(db: Database, run: int, limit: int) -> list[tuple[str, str]]:
    return [(str(url), str(reason)) for url, reason in db.all(_FAILURES, (run, limit))]


def group_failures(db: Database, run: int, limit: int, host: str | None = None) -> list[FailureGroup]:
    """The failed pages of a run, or of a host (`name:port`), by reason and host, the largest groups first.

    Read from counters.
    """
    return [
        FailureGroup(key, reason, jobs, tuple(sorted(orjson.loads(groups))))
        for key, reason, jobs, groups in db.all(
            _GROUPS_OF_RUN if host is None else _GROUPS_OF_HOST, {"run": run, "limit": limit, "host": host}
        )
    ]


def list_host_events(db: Database, run: int, host: str, limit: int) -> list[Event]:
    """The newest warnings and errors of a host (`name:port`), among the last 2,000 of the run."""
    searched = {"run": run, "host": host, "limit": limit, "searched": _SEARCHED_FOR_FEW}
    ids = db.column(_ERRORS_OF_HOST, searched)
    return [event for _, event in events.list_by_ids(db, ids)]


def list_failure_times(db: Database, run: int, host: str, reason: str) -> list[float]:
    """When pages of a host (`name:port`) failed for a reason, wall clock; of the first 20,000 of them."""
    return db.column(_TIMES, (run, host, reason, _MAX_TIMES))


def read_failure_bounds(db: Database, run: int) -> dict[tuple[str, str], tuple[float, float]]:
    """When pages failed first and last, wall clock, by host (`name:port`) and reason. Reads each failed job."""
    return {(str(host), str(reason)): (first, last) for host, reason, first, last in db.all(_BOUNDS, (run,))}


def read_host_errors(db: Database, run: int, host: str, limit: int) -> HostErrors:
    """At most `limit` reasons, warnings and errors of a host (`name:port`), among the last 20,000 of the run."""
    searched = {"run": run, "host": host, "limit": limit, "searched": _SEARCHED_EVENTS}
    ids = db.column(_ERRORS_OF_HOST, searched)
    return HostErrors(tuple(group_failures(db, run, limit, host)), tuple(events.list_by_ids(db, ids)))
