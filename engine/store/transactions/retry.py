"""Retry: jobs that ended are made READY again, in bulk. A DONE job's rows are taken back, so that none doubles.

Each batch is one transaction that also asks whether the run may take work: while its supervisor is ending it, nothing
may be added that would be lost. It knows no process; who is alive is asked of its identity alone.
"""

import time
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from engine import urls
from engine.errors import UsageError
from engine.model.job import Request
from engine.model.job_key import document_key
from engine.model.run import RunState, Stage
from engine.runtime.process_identity import is_process_alive
from engine.store.db.connector import Database, placeholders
from engine.store.db.filter import RETRYABLE_STATES, GlobFilter, JobFilter
from engine.store.db.retry_busy import retry_busy
from engine.store.pages import documents
from engine.store.read import browse, candidates
from engine.store.tables import checkpoints, events, jobs, outputs, rows, runs, supervisors
from engine.store.tables.events import Event

_BATCH = 2000
_ENDED_JOBS = """
SELECT j.id, j.url, j.state, s.grp, s.kind, h.key, l.request, j.origin FROM jobs j
CROSS JOIN sequences s ON s.id = j.sequence CROSS JOIN hosts h ON h.id = s.host LEFT JOIN locators l ON l.id = j.locator
WHERE j.id IN ({ids}) AND +j.run = ? AND + j.state IN ({states})
"""
_ORIGINAL_SEQUENCE = """
SELECT s.id FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.run = ? AND s.grp = ? AND s.kind = ? AND h.key = ?
"""
_ACCEPTING_STAGES = {Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING}


def retry(db: Database, run: int, wanted: JobFilter) -> int:
    """Make the jobs a filter lets through READY again, as new; returns how many. Without a state in it: FAILED ones.

    What they fetched in this run is fetched again. A DONE run is open again, for the next `run` to go on with.
    Raises UsageError for states that cannot be retried, while the run is ending, and for a pattern too slow.
    """
    wanted = _retry_filter(wanted)
    chosen = [job for chunk in browse.iter_ids(db, run, wanted) for job in chunk]
    return retry_jobs(db, run, chosen, wanted.matched_states, wanted.text)


def retry_jobs(
    db: Database, run: int, chosen: list[int], states: frozenset[str] = frozenset(RETRYABLE_STATES), text: str = ""
) -> int:
    """The same for jobs by id; those that are in none of the states by now are left alone."""
    count, listed = 0, iter(chosen)
    while batch := list(islice(listed, _BATCH)):
        try:
            count += retry_busy(partial(_retry_batch, db, run, batch, sorted(states)))
        except UsageError as error:
            if count:
                raise UsageError(f"{retry_message(count)}; then {error.message}", error.remedy) from error
            raise
    if count:
        what = f"retry: {retry_message(count)}" + (f" ({text})" if text else "")
        with db.transaction():
            events.add(db, run, [Event(time.time(), "INFO", "operator", "command", what)])
    return count


def retry_message(count: int) -> str:
    """What an operator reads of a retry."""
    return "1 job is READY again" if count == 1 else f"{count} jobs are READY again"


def _retry_filter(wanted: JobFilter) -> JobFilter:
    if not wanted.states.include:
        wanted = replace(wanted, states=GlobFilter(("failed",), wanted.states.exclude))
    wrong = sorted(wanted.matched_states - set(RETRYABLE_STATES))
    if wrong:
        raise UsageError(
            f"a job that is {wrong[0].upper()} cannot be retried",
            f"States to retry from: {', '.join(RETRYABLE_STATES)}.",
        )
    return wanted


def _retry_batch(db: Database, run: int, chosen: list[int], states: list[str]) -> int:
    """One batch, in one transaction."""
    upper = [state.upper() for state in states]
    with db.transaction():
        found = db.all(_ENDED_JOBS.format(ids=placeholders(chosen), states=placeholders(upper)), (*chosen, run, *upper))
        if not found:
            return 0
        _ensure_accepting(db, run)
        listed = [row[0] for row in found]
        done = [row[0] for row in found if row[2] == "DONE"]
        for data_def, first in rows.delete_by_jobs(db, run, done).items():
            outputs.mark_dirty(db, run, data_def, first)
        keys = [_document_key(row) for row in found]
        for start in range(0, len(keys), 500):
            documents.invalidate(db, run, keys[start : start + 500])
        moves = [(home, row[0]) for row in found if (home := _original_sequence(db, run, row)) is not None]
        count = jobs.reopen(db, listed, moves)
        checkpoints.reopen(db, run)
        return count


def _ensure_accepting(db: Database, run: int) -> None:
    """Make sure that a run may take work, inside the open transaction. Raises UsageError where it is ending."""
    stands, newest = runs.get(db, run), runs.latest(db)
    if newest is not None and newest.seq != run:
        raise UsageError(f"run {stands.id} is over for good: {newest.id} came after it", "Only the latest run goes on.")
    office = supervisors.current(db)
    if office is not None and office.run == run and is_process_alive(office.identity):
        if stands.stage not in _ACCEPTING_STAGES or stands.state is RunState.DRAINING:
            raise UsageError(
                f"run {stands.id} is ending ({stands.stage}): nothing was changed",
                "Give the order again when it has stopped; `crawl-console run` then goes on with these jobs.",
            )
        return
    if stands.state in (RunState.DONE, RunState.DRAINING):
        runs.set_state(db, run, RunState.READY, "jobs were retried")


def _document_key(row: tuple[Any, ...]) -> bytes:
    """Of the document its first request would ask for."""
    _, url, _, _, _, _, request, origin = row
    sent = candidates.parse_request(request) if request and origin == "locator" else Request()
    return document_key(url, sent.method, sent.body)


def _original_sequence(db: Database, run: int, row: tuple[Any, ...]) -> int | None:
    """The sequence of its first request, where redirects had led it to another host's; None: it is there."""
    _, url, _, group, kind, host, _, _ = row
    key = urls.host_key(url)
    if key == host:
        return None
    found = db.value(_ORIGINAL_SEQUENCE, (run, group, kind, key))
    return None if found is None else int(found)
