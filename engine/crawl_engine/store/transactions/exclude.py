"""Takes queued jobs out of a run, or back in, by order of an operator; and takes back a retry."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from crawl_engine.errors import UsageError, plural
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.db.filter import GlobFilter, JobFilter
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.read import browse
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.run import checkpoints, commands
from crawl_engine.store.transactions.retry import close_reopened, ensure_accepting

_EXCLUDED = "excluded by an operator"
_BATCH = 2000

_EXCLUDE = f"""
UPDATE jobs SET state = 'SKIPPED', not_before = NULL, reason = ?, reason_code = NULL, changed_at = {jobs.NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'READY' RETURNING id
"""
_READMIT = f"""
UPDATE jobs SET state = 'READY', reason = NULL, changed_at = {jobs.NOW}
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'SKIPPED' AND reason = ?
"""
_ENDED = """
SELECT id, state, coalesce(reason, '') AS reason, sequence, target, attempts, hops, reason_code FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('FAILED', 'SKIPPED')
"""
_END_AGAIN = f"""
WITH t (retried_at) AS (SELECT ?), e (id, state, reason, sequence, target, attempts, hops, reason_code) AS ({{values}})
UPDATE jobs SET state = e.state, reason = e.reason, target = e.target, attempts = e.attempts, hops = e.hops,
    reason_code = e.reason_code, not_before = NULL, changed_at = {jobs.NOW}
FROM t, e WHERE jobs.id = e.id AND jobs.state = 'READY' AND jobs.attempts = 0 AND jobs.changed_at <= t.retried_at
RETURNING jobs.id
"""

_T = TypeVar("_T")


class EndedJob(NamedTuple):
    """A job that has ended without rows, why, and where it was."""

    id: int
    state: str
    reason: str
    sequence: int
    target: str | None = None
    attempts: int = 0
    hops: int = 0
    reason_code: str | None = None


class Exclusion(NamedTuple):
    """The jobs that were excluded, and the reason that they have now."""

    ids: Sequence[int]
    reason: str


def exclude(
    db: Database, run: int, job_filter: JobFilter, on_batch: Callable[[int], None] = lambda _: None,
    given_by: str | None = None,
) -> Exclusion:  # fmt: skip
    """Skip the queued pages that match, batch by batch as they are found. `on_batch` gets the number of each batch.

    Jobs that a node holds continue, and links found later are not excluded. Raises UsageError if a pattern is too slow,
    or the filter selects other states or kinds than queued pages.
    """
    job_filter = queued_filter(job_filter)
    reason = f"{_EXCLUDED}: {job_filter.text}"[:300]
    excluded: list[int] = []

    def work(ids: Sequence[int]) -> int:
        changed = db.column(_EXCLUDE, (reason, id_list(ids)))
        excluded.extend(changed)
        return len(changed)

    try:
        for chunk in browse.iter_ids(db, run, job_filter):
            on_batch(_in_batches(db, chunk, work))
    finally:
        text = f"{plural(len(excluded), 'job')} SKIPPED ({job_filter.text})"
        _log(db, run, len(excluded), text, "exclude", {"match": job_filter.text}, given_by)
    return Exclusion(excluded, reason)


def readmit(db: Database, run: int, exclusion: Exclusion, given_by: str | None = None) -> int:
    """Make excluded jobs READY again; returns how many. Raises UsageError while the run is ending."""

    def work(ids: Sequence[int]) -> int:
        ensure_accepting(db, run)
        count = int(db.execute(_READMIT, (id_list(ids), exclusion.reason)).rowcount)
        if count:
            checkpoints.reopen(db, run)
        return count

    count = _in_batches(db, exclusion.ids, work)
    _log(db, run, count, f"{plural(count, 'job')} READY again ({exclusion.reason})", given_by=given_by)
    return count


def list_ended(db: Database, ids: Sequence[int]) -> list[EndedJob]:
    """Those of these jobs that have ended without rows."""
    return db.rows(EndedJob, _ENDED, (id_list(ids),))


def end_again(db: Database, run: int, ended: Sequence[EndedJob], retried_at: float, given_by: str | None = None) -> int:
    """Take back a retry for the jobs that no node has taken since; returns how many.

    `retried_at`: wall-clock seconds after the retry. A run that the retry reopened is DONE again if nothing is left.
    """

    def work(part: Sequence[EndedJob]) -> int:
        ids = {int(row[0]) for row in db.execute_values(_END_AGAIN, part, leading=(retried_at,))}
        jobs.move(db, [(job.id, job.sequence) for job in part if job.id in ids])
        if ids:
            close_reopened(db, run)
        return len(ids)

    count = _in_batches(db, ended, work)
    _log(db, run, count, f"the retry of {plural(count, 'job')} is taken back", given_by=given_by)
    return count


def queued_filter(job_filter: JobFilter) -> JobFilter:
    """The filter for queued pages alone. Raises UsageError where it selects others."""
    kinds = sorted(set(job_filter.kinds.include) - {"page"})
    if kinds:
        raise UsageError(f"a job of the kind {kinds[0]} cannot be excluded", "Its pages wait for it: exclude pages.")
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


def _log(
    db: Database, run: int, count: int, text: str, name: str = "undo",
    arguments: Mapping[str, str] = MappingProxyType({}), given_by: str | None = None,
) -> None:  # fmt: skip
    def add() -> None:
        with db.transaction():
            commands.log_done(db, run, name, text, arguments, given_by)

    if count:
        retry_busy(add)
