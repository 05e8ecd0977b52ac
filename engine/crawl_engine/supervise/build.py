"""Builds a supervisor: starts or resumes a run and composes the collaborators."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.defs.builders.table_settings import complete_tables
from crawl_engine.defs.loader import load_to_run
from crawl_engine.defs.watcher import DefsWatcher
from crawl_engine.errors import StorageError, UsageError
from crawl_engine.model.definition import Definitions
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.model.host import product_token
from crawl_engine.model.run import RunState
from crawl_engine.processes.spawner import Spawner
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.runtime.host_clock import HostClock, machine_path
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import commands, events, machines, nodes, page_limits, runs, supervisors
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.transactions import logins, placement, robots
from crawl_engine.supervise.analysis.run_stats import RunStats
from crawl_engine.supervise.checkpoints.state_file import StateFile
from crawl_engine.supervise.checkpoints.step_graph import StepGraph, build_step_graph
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from crawl_engine.supervise.commands import CommandHandlers
from crawl_engine.supervise.disk_guard import DiskGuard
from crawl_engine.supervise.lock import Lock
from crawl_engine.supervise.lock_watch import LockWatch
from crawl_engine.supervise.log_rotation import LogRotation
from crawl_engine.supervise.nodes.leftovers import clean_stored, fence_leftovers, keep_deadlines
from crawl_engine.supervise.nodes.machine_parts import MachineParts, build_parts
from crawl_engine.supervise.outputs import check_writable, prepare_databases
from crawl_engine.supervise.reload.defs_sync import DefsSync
from crawl_engine.supervise.reload.publish import PublishResult, publish_defs
from crawl_engine.supervise.reload.reloader import Reloader, store_problems
from crawl_engine.supervise.reload.stale_page_scan import ReextractionPlanner
from crawl_engine.supervise.retention.keeper import Retention
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.run_end import RunEnd
from crawl_engine.supervise.seeding.seeder import Seeder, check_seedable
from crawl_engine.supervise.stages import StageTracker, StopDeadlines
from crawl_engine.supervise.supervisor import Supervisor
from crawl_engine.supervise.wal_guard import WalGuard

if TYPE_CHECKING:
    from crawl_engine.supervise.retention.data_limit import DataLimit

_T = TypeVar("_T")
_BUSY_SECONDS = 0.5
"""The longest wait for a busy database in a tick; a later tick retries."""
_PLAIN_PROCESSES = "prctl is refused here: each process has an interpreter of its own, and takes longer to start"
_START_BUSY_SECONDS = 90.0


class RunOptions(Struct, frozen=True, kw_only=True):
    folder: Path
    definitions: Definitions
    settings: Settings
    fresh: bool = False
    """Start a new run even if one is unfinished."""
    output: Path | None = None
    """The file of `-o`."""
    watched_defs: Path | None = None
    """The path of the defs, to watch for changes; None: they are not watched."""
    defs_fingerprint: str = ""
    """The fingerprint of the files before they were loaded."""
    extract_only: bool = False
    """Re-extract the stored pages of the latest run; fetch nothing."""
    data_def: str | None = None
    """With `extract_only`: re-extract the pages of this dataDef even if it did not change."""
    arguments: Mapping[str, str] = MappingProxyType({})
    """The values of `-a` by name, with which the defs were loaded."""
    only_new: bool = False
    """Whether files get only rows that no earlier run has."""


def build_supervisor(
    options: RunOptions,
    lock: Lock,
    spawner: Spawner,
    *,
    lead: "Lead | None" = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Supervisor:
    """A supervisor that is ready to start; no process has an assignment yet. The caller holds the lock.

    `lead`: of a machine that leads others. Retries a busy database until `cancelled` returns true. Raises StorageError
    on an unusable database or folder, UsageError on a bad `-o`.
    """
    folder = options.folder.absolute()
    db = _retry(lambda: open_databases(folder), cancelled) if lead is None else lead.db
    try:
        db.busy_seconds = _BUSY_SECONDS
        make_dirs(folder)
        options = complete_options(options, _retry(lambda: _chosen_run(db, options), cancelled))
        defs = PreparedDefs.from_definitions(options.definitions)
        if lead is None:
            _retry(lambda: fence_leftovers(db, folder), cancelled)
        else:
            _retry(lambda: keep_deadlines(db), cancelled)
        limit, definitions = options.settings.deadline, Definitions() if options.output else options.definitions
        unreachable = _retry(lambda: prepare_databases(db, folder, definitions, limit=limit), cancelled)
        begun = _retry(lambda: _begin_run(db, options, folder, defs, lead), cancelled)
        run, published = begun.run, begun.published
        pages_warning, is_joined = "", bool(_retry(lambda: nodes.list_left_over(db), cancelled))
        if not is_joined:  # what living nodes of other machines store looks like an orphan
            pages_warning = _retry(lambda: clean_stored(db, folder, run, busy_seconds=_BUSY_SECONDS), cancelled)
        for text in unreachable:
            _retry(partial(_warn, db, run, "output", text), cancelled)
        parts = lead.parts if lead is not None else None
        if parts is None:
            settings = _retry(lambda: check_host_clock(db, run, options.settings), cancelled)
            parts = build_parts(RunContext(db, folder, run, settings, begun.epoch), spawner)
        if spawner.is_refused:
            _retry(lambda: _warn(db, run, "process", _PLAIN_PROCESSES), cancelled)
    except BaseException:
        db.close()
        raise
    lock.write_holder(run.id)
    context = replace(parts.run, row=run)
    checkpoints = CheckpointTracker(context, begun.steps, StateFile(db, run))
    _retry(lambda: checkpoints.update(lambda: False), cancelled)
    defs_sync = DefsSync(
        run=context,
        ring=parts.queue_maintainer.ring,
        reloader=_build_reloader(context, options, defs, checkpoints),
        planner=ReextractionPlanner(context),
        extract_only=options.extract_only,
        notices=[text for text in (published.text if published.changed else "", pages_warning) if text],
    )
    data_limit = _watch_data(context)
    disk, retention = DiskGuard(context, data_limit), Retention(context, data_limit)
    if not is_joined:
        _retry(lambda: retention.begin_start(is_new=run.state is RunState.NEW), cancelled)
    stages, stats = StageTracker(context), RunStats(context, disk)
    return Supervisor(
        run=context,
        parts=parts,
        lock=lock,
        spawner=spawner,
        deadlines=StopDeadlines(context.settings),
        stages=stages,
        stats=stats,
        seeder=Seeder(context, options.definitions, published.version),
        defs_sync=defs_sync,
        commands=CommandHandlers(context, parts.node_pool, defs_sync),
        checkpoints=checkpoints,
        disk=disk,
        lock_watch=LockWatch(db, parts.node_pool),
        wal_guards=[WalGuard(folder / CRAWL), WalGuard(folder / PAGES)],
        log_rotation=LogRotation(folder / "logs"),
        retention=retention,
        run_end=RunEnd(
            run=context,
            is_last=lead is None,
            stages=stages,
            stats=stats,
            checkpoints=checkpoints,
            defs_sync=defs_sync,
        ),
    )


class Lead(Struct, frozen=True):
    """The lead of a machine among others."""

    epoch: int
    """Of the machine."""
    db: Database
    """Its guard refuses writes once another machine leads."""
    owns_files: bool
    """Whether the files of the outputs are those that this machine wrote when it led before."""
    parts: MachineParts | None = None
    """Those of a machine that stood by until now, with nodes that work."""


def _watch_data(run: RunContext) -> "DataLimit | None":
    """What watches `max_data`; None: it is not set."""
    if run.settings.max_data is None:
        return None
    from crawl_engine.supervise.retention.data_limit import DataLimit

    return DataLimit(run.folder, run.settings.max_data)


def check_host_clock(db: Database, run: Run, settings: Settings) -> Settings:
    """The settings for the nodes: without the machine's host clock, and with a warning, if it is unusable."""
    if settings.host_clock:
        try:
            HostClock(machine_path(os.environ), "").close()
        except OSError as error:
            reason = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
            text = f"{reason}; crawls of one host by several data dirs do not know of each other"
            _warn(db, run, "host", text)
            return replace(settings, host_clock=False)
    return settings


def _warn(db: Database, run: Run, kind: str, text: str) -> None:
    with db.transaction():
        events.log(db, run.seq, "WARNING", kind, text)


class _BegunRun(Struct, frozen=True):
    run: Run
    epoch: int
    """The supervisor's epoch."""
    published: PublishResult
    steps: StepGraph


def _build_reloader(
    run: RunContext, options: RunOptions, defs: PreparedDefs, checkpoints: CheckpointTracker
) -> Reloader | None:  # fmt: skip
    """The reloader of the defs on disk; None if they are not watched."""
    if options.watched_defs is None:
        return None
    return Reloader(
        run=run,
        watcher=DefsWatcher(
            options.watched_defs,
            options.defs_fingerprint,
            lambda loaded: build_step_graph(loaded.definitions, base_url=run.row.base_url, output=options.output),
            complete=partial(complete_tables, settings=options.settings),
            load_defs=partial(
                load_to_run,
                default_steps=options.settings.default_steps,
                keep_documents=options.settings.documents,
                arguments=options.arguments,
            ),
        ),
        output_file=options.output,
        checkpoints=checkpoints,
        current=defs,
    )


def _retry(work: Callable[[], _T], cancelled: Callable[[], bool]) -> _T:
    """Wait for other writers at the start; a full disk is reported at once."""
    return retry_busy(work, seconds=_START_BUSY_SECONDS, cancelled=cancelled, wait_for_space=False)


def make_dirs(folder: Path) -> None:
    try:
        for part in ("beats", "logs", "output"):
            (folder / part).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}", "Fix it, or use another --data.") from error


def complete_options(options: RunOptions, resumed: Run | None) -> RunOptions:
    """The options with their tables complete. A resumed run keeps its base URL unless another one is given."""
    kept = resumed.base_url if resumed is not None else None
    settings = replace(options.settings, base_url=options.settings.base_url or kept)
    return replace(options, definitions=complete_tables(options.definitions, settings), settings=settings)


def _chosen_run(db: Database, options: RunOptions) -> Run | None:
    """The run that these options continue; None: a new run."""
    return runs.latest(db) if options.extract_only else None if options.fresh else runs.latest_unfinished(db)


def _begin_run(
    db: Database, options: RunOptions, folder: Path, defs: PreparedDefs, lead: Lead | None
) -> _BegunRun:  # fmt: skip
    """Choose the run, publish the defs and declare the outputs, in one transaction."""
    now = time.time()
    with db.transaction():
        run = _chosen_run(db, options)
        if run is None and options.extract_only:
            raise UsageError(
                f"{options.folder}: nothing was crawled here", "Run `crawl-console run` first, or give --data."
            )
        resumed = run is not None
        base_url = options.settings.base_url or (run.base_url if run else None)
        check_seedable(options.definitions, base_url, allow_file=options.settings.allow_file)
        if run is None:
            runs.supersede(db)
            run = runs.create(db, options.settings.base_url, now, options.arguments)
        if lead is None:
            epoch = supervisors.begin(db, identity_of(os.getpid()) or "", run.seq, now)
        else:
            epoch = lead.epoch
            machines.set_role(db, epoch, "LEADER", run.seq)
            if not lead.owns_files:
                outputs.begin_files_again(db, run.seq)
        # commands and the base URL may hold secrets
        stored = replace(options.settings, on_start=None, on_end=None, on_alarm=None, notify=None, base_url=None)
        supervisors.set_meta(db, supervisors.SETTINGS, stored.to_json())
        commands.expire(db, now)
        runs.begin(db, run.seq, now)
        if options.settings.base_url is not None:
            runs.set_base_url(db, run.seq, options.settings.base_url)
        runs.hold_for_disk(db, run.seq, False)
        if lead is None:  # else nodes of other machines hold some, and rings are theirs, too
            jobs.release_all(db, run.seq, "its supervisor died")
            rings.clear_rings(db, run.seq)
        jobs.resume_incomplete(db, run.seq)
        runs.set_extract_only(db, run.seq, options.extract_only)
        if options.extract_only:
            runs.set_state(db, run.seq, RunState.SEEDING)  # the run counts as unfinished now, even after a crash
        sequences.recount(db, run.seq)
        runs.recount(db, run.seq)
        run = runs.get(db, run.seq)
        context = RunContext(db, folder, run, options.settings, epoch)
        context.output_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        steps = build_step_graph(options.definitions, base_url=run.base_url, output=options.output)
        published = publish_defs(
            context,
            defs,
            output_file=options.output,
            forced_data_def=options.data_def,
            only_new=options.only_new,
            graph=steps,
        )
        check_writable(outputs.list_outputs(db, run.seq))
        # the settings may have changed since the last start
        for host in hosts.list_keys(db, run.seq):
            placement.apply_host_policy(
                db, run.seq, host, resolve_host_policy(options.definitions, options.settings, host)
            )
        robots.ask_stale_hosts(db, run.seq, now, product_token(options.settings.user_agent))
        logins.resume_run(db, run.seq, fetches=not options.extract_only)
        page_limits.apply(db, run.seq, options.definitions, options.settings)
        store_problems(db, [])
        verb = "resumed" if resumed else "started"
        events.log(db, run.seq, "INFO", "run", f"run {run.id} {verb}, defs v{published.version}")
    return _BegunRun(runs.get(db, run.seq), epoch, published, steps)
