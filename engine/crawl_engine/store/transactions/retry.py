"""Makes ended jobs READY again, in batches. The rows of DONE jobs are deleted, so that none doubles.

Each batch is one transaction that first checks that the run accepts work: jobs added while its supervisor ends the run
would be lost.
"""

from functools import partial
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.errors import UsageError, plural
from crawl_engine.model.job import JobKind, document_key
from crawl_engine.model.run import RunState, Stage
from crawl_engine.store.db.connector import Database, id_list, placeholders
from crawl_engine.store.db.filter import RETRYABLE_STATES, GlobFilter, JobFilter
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.pages import documents
from crawl_engine.store.read import browse
from crawl_engine.store.read.sent_request import SentRequest
from crawl_engine.store.tables.host import refusals
from crawl_engine.store.tables.job import jobs, results, sequences, step_values
from crawl_engine.store.tables.run import checkpoints, commands, landings, runs, supervisors
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions import logins, robots, statistics, supersede

_BATCH = 2000
_ENDED_JOBS = """
SELECT j.id, j.url, s.grp AS "group", s.kind, h.key AS host, l.request AS locator_request,
    j.origin = 'locator' AS located, j.link_request AS link, coalesce(r.url, j.url) AS root_url, j.document
FROM jobs j CROSS JOIN sequences s ON s.id = j.sequence
CROSS JOIN hosts h ON h.id = s.host LEFT JOIN locators l ON l.id = j.locator
LEFT JOIN jobs r ON r.id = j.root
WHERE j.id IN ({ids}) AND +j.run = ? AND + j.state IN ({states})
"""
_ORIGINAL_SEQUENCE = """
SELECT s.id FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.run = ? AND s.grp = ? AND s.kind = ? AND h.key = ?
"""
_HAS_LOST_DOCUMENT = """
SELECT EXISTS (
    SELECT 1 FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value CROSS JOIN sequences s ON s.id = j.sequence
    WHERE j.state = 'DONE' AND s.kind = 'page' AND NOT EXISTS (SELECT 1 FROM documents WHERE id = j.document))
"""
_REOPENED = "jobs were retried"
_ACCEPTING_STAGES = {Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING}


class _EndedJob(NamedTuple):
    """A job to retry, with what its first request is made of."""

    id: int
    url: str
    group: str
    kind: str
    host: str
    locator_request: str | None
    located: bool
    link: str | None
    root_url: str
    document: int | None


def retry(db: Database, run: int, job_filter: JobFilter, given_by: str | None = None) -> int:
    """Make the jobs that match READY again, as new; returns how many. A filter without a state selects FAILED ones.

    Their pages are fetched again. A DONE run is reopened, for the next `run` to resume.
    Raises UsageError for states that cannot be retried, for a run that is ending or not the latest, and if a pattern is
    too slow.
    """
    job_filter = retry_filter(job_filter)
    chosen = [job for chunk in browse.iter_ids(db, run, job_filter) for job in chunk]
    return retry_jobs(db, run, chosen, job_filter.matched_states, job_filter.text, given_by)


def retry_jobs(
    db: Database, run: int, chosen: list[int], states: frozenset[str] = frozenset(RETRYABLE_STATES), text: str = "",
    given_by: str | None = None,
) -> int:  # fmt: skip
    """Retry jobs by id; those that are no longer in one of the states are skipped. Raises as `retry` does."""
    _check_latest(db, run)
    count, remaining = 0, iter(chosen)
    is_document_lost = db.value(_HAS_LOST_DOCUMENT, (id_list(chosen),))
    while batch := list(islice(remaining, _BATCH)):
        try:
            count += retry_busy(partial(_retry_batch, db, run, batch, sorted(states)))
        except UsageError as error:
            if count:
                raise UsageError(f"{retry_message(count)}; then {error.message}", error.remedy) from error
            raise
    if count:
        message = retry_message(count) + (f" ({text})" if text else "")
        with db.transaction():
            if is_document_lost:
                statistics.recount(db, run)  # nothing else knows what to subtract from the sums
            commands.log_done(db, run, "retry", message, {"match": text}, given_by)
    return count


def retry_message(count: int) -> str:
    """The result of a retry, for the operator."""
    return f"{plural(count, 'job')} {'is' if count == 1 else 'are'} READY again"


def retry_filter(job_filter: JobFilter) -> JobFilter:
    """The filter with FAILED where it has no state. Raises UsageError for states that cannot be retried."""
    if not job_filter.states.include:
        job_filter = replace(job_filter, states=GlobFilter(("failed",), job_filter.states.exclude))
    wrong = sorted(job_filter.matched_states - set(RETRYABLE_STATES))
    if wrong:
        raise UsageError(
            f"a job that is {wrong[0].upper()} cannot be retried",
            f"States to retry from: {', '.join(RETRYABLE_STATES)}.",
        )
    return job_filter


def _retry_batch(db: Database, run: int, chosen: list[int], states: list[str]) -> int:
    upper = [state.upper() for state in states]
    with db.transaction():
        sql = _ENDED_JOBS.format(ids=placeholders(chosen), states=placeholders(upper))
        ended = db.rows(_EndedJob, sql, (*chosen, run, *upper))
        if not ended:
            return 0
        heirs = landings.list_heirs(db, [job.id for job in ended])
        if heirs:  # they were skipped for pages that start again
            sql = _ENDED_JOBS.format(ids=placeholders(heirs), states="'SKIPPED'")
            ended += db.rows(_EndedJob, sql, (*heirs, run))
        ensure_accepting(db, run)
        ids = [job.id for job in ended]
        step_failed = results.list_errors(db, ids)  # these are extracted again from their stored documents
        supersede.take_back_pages(db, run, ids)
        landings.forget(db, ids)
        step_values.delete_checkpoints(db, ids)
        asked = [job for job in ended if job.id not in step_failed]
        keys = [_document_key(job) for job in asked]
        for start in range(0, len(keys), 500):
            documents.invalidate(db, run, keys[start : start + 500])
        # what a browser made of its page has another key, which only the defs tell
        documents.invalidate_of_run(db, run, [job.document for job in asked if job.document is not None])
        moves = [(job.id, home) for job in ended if (home := _original_sequence(db, run, job)) is not None]
        robots.ask_hosts_of_jobs(db, run, ids)  # of the hosts that redirects led to
        logins.ask_hosts_of_jobs(db, run, ids)
        refusals.forget_of_jobs(db, ids)
        count = jobs.reopen(db, ids, moves)
        robots.ask_hosts_of_jobs(db, run, ids)
        logins.ask_hosts_of_jobs(db, run, ids)
        refusals.forget_of_jobs(db, ids)
        checkpoints.reopen(db, run)
        return count


def ensure_accepting(db: Database, run: int) -> None:
    """Check that a run accepts work, in the open transaction. Raises UsageError if it ends or a newer one exists."""
    current = _check_latest(db, run)
    supervisor = supervisors.current(db)
    if supervisor is not None and supervisor.run == run and supervisor.is_alive:
        if current.stage not in _ACCEPTING_STAGES or current.state is RunState.DRAINING:
            raise UsageError(
                f"run {current.id} is ending ({current.stage}): nothing was changed",
                "Retry when it has stopped; `crawl-console run` then works these jobs.",
            )
        return
    if current.state in (RunState.DONE, RunState.DRAINING):
        runs.set_state(db, run, RunState.READY, _REOPENED)


def close_reopened(db: Database, run: int) -> None:
    """End a run again that a retry reopened and whose retried jobs have ended, in the open transaction."""
    current, supervisor = runs.get(db, run), supervisors.current(db)
    if current.state is not RunState.READY or current.exit_code is None or current.reason != _REOPENED:
        return
    kinds = (JobKind.PAGE, JobKind.FILE, JobKind.SITEMAP, JobKind.EXTRACT)  # the others only serve these
    open_jobs = sum(sequences.count(db, run, "ready", "delayed", "taken", kind=kind) for kind in kinds)
    if open_jobs or (supervisor is not None and supervisor.is_alive):
        return
    runs.set_state(db, run, RunState.DRAINING)
    runs.set_state(db, run, RunState.DONE)
    checkpoints.close_again(db, run)


def _check_latest(db: Database, run: int) -> Run:
    """The run. Raises UsageError if a newer one exists."""
    current, newest = runs.get(db, run), runs.latest(db)
    if newest is not None and newest.seq != run:
        raise UsageError(
            f"run {current.id} cannot be resumed: {newest.id} is newer", "Only the latest run can be resumed."
        )
    return current


def _document_key(job: _EndedJob) -> bytes:
    """The key of the document that the job's first request fetches."""
    request = SentRequest.from_rows(job.link, job.locator_request, located=job.located)
    sent = request.request(job.url, job.root_url)
    return document_key(job.url, sent.method, sent.body, sent.variant)


def _original_sequence(db: Database, run: int, job: _EndedJob) -> int | None:
    """The sequence of the job's first request if a redirect moved the job to another host; None: it is still there."""
    key = urls.host_key(job.url)
    return None if key == job.host else db.value(_ORIGINAL_SEQUENCE, (run, job.group, job.kind, key))
