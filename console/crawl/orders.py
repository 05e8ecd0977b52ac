"""What operators do to the jobs of the latest run, by commands or over HTTP. Prints nothing."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from console.client import has_supervisor, open_latest_run
from console.filter_syntax import job_filter
from engine.errors import UsageError
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read.browse import count_jobs
from engine.store.tables.run.runs import Run
from engine.store.transactions import exclude as exclusions
from engine.store.transactions.retry import retry
from engine.supervise.checkpoints.state_file import StateFile
from engine.supervise.seeding.posted_seeds import PostedSeeds, SeedPoster

OnBatch = Callable[[int], None]


class Done(Struct, frozen=True):
    """What was done. `answer`: the object that the command prints with `--json`."""

    answer: dict[str, Any]
    waits: bool = False
    """Whether no supervisor works the jobs: the next `run` does."""


def retry_jobs(
    data: Path, match: str | None, states: Sequence[str] = (), *, run_id: str | None = None, given_by: str | None = None
) -> Done:
    """Make jobs READY again, failed ones without `states`. Raises UsageError, StorageError, DatabaseBusy."""
    filter_ = job_filter(match, [state.lower() for state in states] or ["failed"])
    with open_latest_run(data, run_id=run_id, write=True) as (db, run):
        count = retry(db, run.seq, filter_, given_by)
        return Done({"run": run.id, "retried": count}, waits=count > 0 and _refresh_state(db, run))


def exclude_jobs(
    data: Path, match: str | None, *, dry_run: bool = False, on_batch: OnBatch = lambda _: None,
    given_by: str | None = None,
) -> Done:  # fmt: skip
    """Skip queued pages, or count those that would be. Raises UsageError, StorageError, DatabaseBusy."""
    if not match:
        raise UsageError("exclude: no --match", "Say which queued jobs, as in --match '/calendar/'.")
    filter_ = exclusions.queued_filter(job_filter(match))
    with open_latest_run(data, write=not dry_run) as (db, run):
        if dry_run:
            count = count_jobs(db, run.seq, filter_)
        else:
            count = len(exclusions.exclude(db, run.seq, filter_, on_batch, given_by).ids)
        return Done({"run": run.id, "excluded": count, "dry_run": dry_run})


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
