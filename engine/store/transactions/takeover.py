"""Takeover: requeues the jobs of a dead node; unsettled requests stay counted in page limits."""

import time

from engine.errors import plural
from engine.store.db.connector import Database
from engine.store.tables.host import hosts
from engine.store.tables.job import jobs
from engine.store.tables.run import events
from engine.store.tables.run.events import Event
from engine.store.transactions import logins, page_limit


def requeue_jobs(db: Database, run: int, node: int, reason: str, *, crashed: bool) -> int:
    """Make the jobs of a dead node (its epoch) READY again, or FAILED after too many node deaths; returns how many.

    `crashed`: the node was not stopped on purpose, so one of its jobs may be the cause. A warning tells how much of a
    page limit is lost: which requests the node sent is unknown.
    """
    unsettled = page_limit.count_unsettled(db, node)
    freed = jobs.release(db, node, reason, crashed=crashed)
    if unsettled:
        text = f"{reason}; the page limits count {plural(unsettled, 'request')} that it may not have sent"
        events.add(db, run, [Event(time.time(), "WARNING", "supervisor", "node", text)])
    return freed


def give_up_gates(db: Database, run: int) -> None:
    """Have no page wait for a robots.txt or a login whose job failed with its nodes."""
    hosts.abandon_robots(db, run)
    logins.abandon_failed(db, run)
