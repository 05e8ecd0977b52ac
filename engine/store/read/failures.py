"""Reads why jobs of a run failed: by reason and host, and the first failed jobs for a summary."""

from typing import NamedTuple

from engine.store.db.connector import Database

_FAILURES = """
SELECT coalesce(target, url), reason FROM jobs WHERE run = ? AND state = 'FAILED' AND page IS NULL
ORDER BY coalesce(changed_at, 0), id LIMIT ?
"""
_GROUPS = """
SELECT h.key, f.reason, sum(f.jobs) AS jobs, group_concat(DISTINCT s.grp)
FROM sequences s CROSS JOIN failures f ON f.sequence = s.id JOIN hosts h ON h.id = s.host
WHERE s.run = ? AND s.kind = 'page' GROUP BY h.key, f.reason ORDER BY jobs DESC, h.key, f.reason LIMIT ?
"""


class FailureGroup(NamedTuple):
    """The failed pages of a host (`name:port`) with the same reason, and the groups they are of."""

    host: str
    reason: str
    jobs: int
    groups: tuple[str, ...]


def list_failures(db: Database, run: int, limit: int) -> list[tuple[str, str]]:
    """URL and reason of the first failed jobs."""
    return [(str(url), str(reason)) for url, reason in db.all(_FAILURES, (run, limit))]


def group_failures(db: Database, run: int, limit: int) -> list[FailureGroup]:
    """The failed pages of a run by reason and host, the largest groups first. Read from counters."""
    return [
        FailureGroup(host, reason, jobs, tuple(sorted(groups.split(","))))
        for host, reason, jobs, groups in db.all(_GROUPS, (run, limit))
    ]
