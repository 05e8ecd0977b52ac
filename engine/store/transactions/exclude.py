"""Takes queued jobs out of a run, or back in, by order of an operator; and takes back a retry."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from engine.errors import UsageError
from engine.store.db.connector import Database, id_list
from engine.store.db.filter import GlobFilter, JobFilter
from engine.store.db.retry_busy import retry_busy
from engine.store.read import browse
from engine.store.tables import events
from engine.store.tables.events import Event
from engine.store.transactions.retry import ensure_accepting

EXCLUDED = "excluded by an operator"
_BATCH = 2000
_NOW = "((julianday('now') - 2440587.5) * 86400.0)"

_EXCLUDE = f"""
UPDATE jobs SET state = 'SKIPPED', not_before = NULL, reason = ?, changed_at = {_NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'READY'
"""
_READMIT = f"""
UPDATE jobs SET state = 'READY', reason = NULL, changed_at = {_NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'SKIPPED' AND reason = ?
"""
_ENDED = """
SELECT id, state, coalesce(reason, '') FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('FAILED', 'SKIPPED')
"""
_END_AGAIN = f"""
WITH e (id, state, reason) AS ({{values}})
UPDATE jobs SET state = e.state, reason = e.reason, not_before = NULL, changed_at = {_NOW}
FROM e WHERE jobs.id = e.id AND jobs.state = 'READY' AND jobs.attempts = 0 RETURNING jobs.id
"""


_T = TypeVar("_T")


class EndedJob(NamedTuple):
    """A job that has ended without rows, and why."""

    id: int
    state: str
    reason: str


def exclude(db: Database, run: int, job_filter: JobFilter) -> tuple[int, str]:
    """Skip the queued jobs that match; returns how many, and the reason that they have now.

    Jobs that a node holds go on, and links found later are not excluded. Raises UsageError if a pattern is too slow,
    or the filter selects other states than READY.
    """
    job_filter = queued_filter(job_filter)
    reason = f"{EXCLUDED}: {job_filter.text}"[:300]
    chosen = [job for chunk in browse.iter_ids(db, run, job_filter) for job in chunk]
    count = _in_batches(db, chosen, lambda ids: int(db.execute(_EXCLUDE, (reason, id_list(ids))).rowcount))
    _log(db, run, count, f"exclude: {count} jobs SKIPPED ({job_filter.text})")
    return count, reason


def readmit(db: Database, run: int, reason: str) -> int:
    """Make the jobs READY again that were excluded for this reason; returns how many. Raises UsageError."""
    escaped = reason.replace("*", "\\*")
    skipped = JobFilter(states=GlobFilter(("skipped",)), reasons=GlobFilter((escaped,)))
    chosen = [job for chunk in browse.iter_ids(db, run, skipped) for job in chunk]

    def work(ids: Sequence[int]) -> int:
        ensure_accepting(db, run)
        return int(db.execute(_READMIT, (id_list(ids), reason)).rowcount)

    count = _in_batches(db, chosen, work)
    _log(db, run, count, f"undo: {count} jobs READY again ({reason})")
    return count


def list_ended(db: Database, ids: Sequence[int]) -> list[EndedJob]:
    """Those of these jobs that have ended without rows."""
    return [EndedJob(*row) for row in db.all(_ENDED, (id_list(ids),))]


def end_again(db: Database, run: int, ended: Sequence[EndedJob]) -> int:
    """Take back the retry of jobs that no node has taken since; returns how many."""

    def work(part: Sequence[EndedJob]) -> int:
        return len(db.execute_values(_END_AGAIN, part))

    count = _in_batches(db, ended, work)
    _log(db, run, count, f"undo: the retry of {count} jobs is taken back")
    return count


def queued_filter(job_filter: JobFilter) -> JobFilter:
    """The filter for queued jobs alone. Raises UsageError where it selects others."""
    wrong = sorted(set(job_filter.states.include) - {"ready", "delayed"})
    if wrong:
        raise UsageError(f"a job that is {wrong[0].upper()} cannot be excluded", "Only queued jobs: ready or delayed.")
    return replace(job_filter, states=GlobFilter(job_filter.states.include or ("ready",), job_filter.states.exclude))


def _in_batches(db: Database, items: Sequence[_T], work: Callable[[Sequence[_T]], int]) -> int:
    """Do the work on each part of the items, in a transaction of its own; returns the sum."""

    def in_transaction(part: Sequence[_T]) -> int:
        with db.transaction():
            return work(part)

    return sum(
        retry_busy(partial(in_transaction, items[start : start + _BATCH])) for start in range(0, len(items), _BATCH)
    )


def _log(db: Database, run: int, count: int, text: str) -> None:
    if count:
        with db.transaction():
            events.add(db, run, [Event(time.time(), "INFO", "operator", "command", text)])
