"""What operators do to the jobs of the latest run, by commands or over HTTP. Prints nothing."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawl_console.client import has_supervisor, open_latest_run
from crawl_console.filter_syntax import job_filter
from crawl_console.format import plural
from crawl_engine.errors import UsageError
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.filter import RETRYABLE_STATES, JobFilter
from crawl_engine.store.read.browse import count_jobs, iter_ids
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions import exclude as exclusions
from crawl_engine.store.transactions import retry as retries
from crawl_engine.store.transactions.exclude import EndedJob, Exclusion
from crawl_engine.supervise.checkpoints.state_file import StateFile
from crawl_engine.supervise.seeding.posted_seeds import PostedSeeds, SeedPoster

OnBatch = Callable[[int], None]


class Done(Struct, frozen=True):
    """What was done. `answer`: the object that the command prints with `--json`."""

    answer: dict[str, Any]
    waits: bool = False
    """Whether no supervisor works the jobs: the next `run` does."""
    undo: "Undo | None" = None


class Retried(Struct, frozen=True):
    """How many jobs were retried, and the earlier ends of those whose retry can be undone."""

    count: int
    ended: Sequence[EndedJob]
    at: float = 0.0
    """Wall-clock seconds after it."""


Undo = Callable[[str | None], tuple[bool, str]]
"""Takes an order back. Gets who does it; returns whether anything was left to take back, and the answer."""


def retry_jobs(
    data: Path, match: str | None, states: Sequence[str] = (), *, ids: Sequence[int] = (), run_id: str | None = None,
    given_by: str | None = None, most_undone: int = 0,
) -> Done:  # fmt: skip
    """Make jobs READY again, failed ones without `states`; with `ids` only these, of any final state without `states`.

    Up to `most_undone` jobs, it can be taken back. Raises UsageError, StorageError, DatabaseBusy.
    """
    default = RETRYABLE_STATES if ids else ("failed",)
    filter_ = job_filter(match, [state.lower() for state in states] or default)
    with open_latest_run(data, run_id=run_id, write=True) as (db, run):
        retried = retry_chosen(db, run, filter_, ids, most_undone=most_undone, given_by=given_by)
        waits = retried.count > 0 and _refresh_state(db, run)
        undo = partial(undo_retry, data, retried) if retried.ended else None
        return Done({"run": run.id, "retried": retried.count}, waits, undo)


def retry_chosen(
    db: Database, run: Run, filter_: JobFilter, ids: Sequence[int] = (), *, at_most: int | None = None,
    most_undone: int | None = None, given_by: str | None = None,
) -> Retried:  # fmt: skip
    """Make these jobs READY again, or without ids those that match, the first `at_most` of them."""
    if not ids:
        filter_ = retries.retry_filter(filter_)
        ids = [job for chunk in iter_ids(db, run.seq, filter_) for job in chunk]
    chosen = list(ids[:at_most])
    ended = exclusions.list_ended(db, chosen) if most_undone is None or len(chosen) <= most_undone else []
    states = filter_.matched_states & set(RETRYABLE_STATES)
    count = retries.retry_jobs(db, run.seq, chosen, states, filter_.text, given_by)
    return Retried(count, ended, time.time())


def undo_retry(data: Path, retried: Retried, given_by: str | None = None) -> tuple[bool, str]:
    """Take back the retry of jobs that no node has taken; returns whether any were left, and the answer."""
    with open_latest_run(data, write=True) as (db, run):
        count = exclusions.end_again(db, run.seq, retried.ended, retried.at, given_by)
        if count:
            _refresh_state(db, run)
        others = len(retried.ended) - count
        text = f"{plural(count, 'job')} ended as before"
        return count > 0, f"{text}; {plural(others, 'job')} had begun" if others else text


def exclude_jobs(
    data: Path, match: str | None, *, dry_run: bool = False, on_batch: OnBatch = lambda _: None,
    given_by: str | None = None,
) -> Done:  # fmt: skip
    """Skip queued pages, or count those that would be. Raises UsageError, StorageError, DatabaseBusy."""
    if not match:
        raise UsageError("exclude: no --match", "Say which queued jobs, as in --match '/calendar/'.")
    filter_ = exclusions.queued_filter(job_filter(match))
    with open_latest_run(data, write=not dry_run) as (db, run):
        undo: Undo | None = None
        if dry_run:
            count = count_jobs(db, run.seq, filter_)
        else:
            exclusion = exclusions.exclude(db, run.seq, filter_, on_batch, given_by)
            count, undo = len(exclusion.ids), partial(readmit_jobs, data, exclusion)
        return Done({"run": run.id, "excluded": count, "dry_run": dry_run}, undo=undo if count else None)


def readmit_jobs(data: Path, exclusion: Exclusion, given_by: str | None = None) -> tuple[bool, str]:
    """Take back an exclusion; returns whether any jobs were left, and the answer."""
    with open_latest_run(data, write=True) as (db, run):
        count = exclusions.readmit(db, run.seq, exclusion, given_by)
        return count > 0, f"{plural(count, 'job')} READY again"


def seed_urls(
    data: Path, group: str, seeds: Iterable[tuple[str, str]], settings: Settings, *,
    on_batch: OnBatch = lambda _: None, given_by: str | None = None,
    on_end: Callable[[Run, PostedSeeds], None] = lambda _run, _result: None,
) -> Done:  # fmt: skip
    """Add URLs, each with its place, to a group. `on_end` also gets what was done before an error.

    Raises UsageError, StorageError, DatabaseBusy.
    """
    with open_latest_run(data, write=True) as (db, run):
        poster = SeedPoster(db, run, group, settings, given_by=given_by)
        result = poster.result
        try:
            poster.post(seeds, on_batch)
        finally:
            if result.created:
                poster.log()
            on_end(run, result)
        waits = result.created > 0 and _refresh_state(db, run)
        return Done({"run": run.id, "group": group, **asdict(result)}, waits)


def _refresh_state(db: Database, run: Run) -> bool:
    """Without a supervisor, write the state file again; returns whether there is none."""
    if has_supervisor(db):
        return False
    StateFile(db, run).refresh()
    return True
