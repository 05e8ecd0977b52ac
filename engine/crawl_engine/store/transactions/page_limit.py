"""Counts the requests sent for pages against the limits of group and run, before they are sent."""

import sys

from msgspec import Struct

from crawl_engine.model.job import LeasedJob
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.run import metrics, runs
from crawl_engine.store.tables.run.metrics import FetchStats

_UNSETTLED = """
SELECT count(*) FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN runs r ON r.seq = j.run
WHERE j.state = 'TAKEN' AND j.node = ? AND s.kind = 'page' AND coalesce(s.max_pages, r.max_pages) IS NOT NULL
"""


class Room(Struct, frozen=True):
    """What the limits leave."""

    requests: int
    """Requests that may still be reserved, at least 0."""
    group_is_full: bool
    """Whether the group has sent all its requests: none that is reserved can be given back."""


def read_room(db: Database, run: int, group: str, *, group_limit: int | None, run_limit: int | None) -> Room:
    """The room of a group within its limit and the run's; None: no such limit."""
    left, full = [sys.maxsize], False
    if group_limit is not None:
        count = metrics.count_requests(db, run, group)
        left.append(group_limit - count)
        full = count >= group_limit and count - sequences.count(db, run, "taken", group=group) >= group_limit
    if run_limit is not None:
        left.append(run_limit - metrics.count_requests(db, run))
    return Room(max(0, min(left)), full)


def reserve(db: Database, run: int, group: str, requests: int) -> None:
    """Count requests before they are sent; the commit subtracts those that were not."""
    metrics.add(db, run, [FetchStats(group, 0, 0.0, 0, 0, requests=requests)])


def reserve_next(db: Database, job: LeasedJob) -> bool:
    """Reserve one more request of a job with a limit; False: there is no room, or its lease is lost."""
    if not jobs.is_held(db, job):
        return False
    room = read_room(
        db,
        job.run,
        job.group,
        group_limit=sequences.get_max_pages(db, job.sequence),
        run_limit=runs.get(db, job.run).max_pages,
    )
    if room.requests:
        reserve(db, job.run, job.group, 1)
    return room.requests > 0


def is_run_full(db: Database, run: int, limit: int) -> bool:
    """Whether a run has sent all its requests: none that is reserved can be given back."""
    count = metrics.count_requests(db, run)
    return count >= limit and count - sequences.count(db, run, "taken") >= limit


def count_unsettled(db: Database, node: int) -> int:
    """Requests that are counted for the jobs a node holds, whether it sent them or not."""
    return int(db.value(_UNSETTLED, (node,)))
