"""Putting a supervisor together: what earlier ones left is fenced, a run begun or resumed, its outputs declared."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from engine.defs.watcher import DefsWatcher
from engine.errors import StorageError, UsageError
from engine.fetch.host_policy import resolve_host_policy
from engine.model.definition import Definitions
from engine.model.fingerprint import PreparedDefs
from engine.model.node import HeartbeatState, NodeState, Role
from engine.model.run import RunState
from engine.runtime.clock import boot_id, boottime
from engine.runtime.process_identity import identity_of
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.db.retry_busy import retry_busy
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.pages import documents
from engine.store.tables import commands, events, hosts, jobs, nodes, runs, sequences, supervisors
from engine.store.tables.events import Event
from engine.store.tables.runs import Run
from engine.store.transactions import placement
from engine.supervise.appender_process import AppenderProcess
from engine.supervise.checkpoints import tracker
from engine.supervise.checkpoints.state_file import StateFile
from engine.supervise.checkpoints.step_graph import StepGraph, build_step_graph
from engine.supervise.checkpoints.tracker import CheckpointTracker
from engine.supervise.child_process import kill_leftover
from engine.supervise.doorbell_repair import QueueMaintainer
from engine.supervise.lock import Lock
from engine.supervise.node_pool import NodePool
from engine.supervise.reload.defs_sync import DefsSync
from engine.supervise.reload.publish import PublishResult, publish_defs
from engine.supervise.reload.reloader import Reloader, store_problems
from engine.supervise.seeding import Seeder, check_seedable, create_placements
from engine.supervise.supervisor import Supervisor

_T = TypeVar("_T")
_BUSY_SECONDS = 0.5
"""A tick must not hang: what is busy now is done at a later one."""
_START_BUSY_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a start asks for."""

    folder: Path
    definitions: Definitions
    settings: Settings
    fresh: bool = False
    """Begin a new run even though one is unfinished."""
    output: Path | None = None
    """The file of `-o`."""
    watched_defs: Path | None = None
    """Where the defs were loaded from, to be watched; None: they are not."""
    defs_fingerprint: str = ""
    """The fingerprint of what was there before it was loaded."""
    extract_only: bool = False
    """Work the stored pages of the latest run anew, fetch nothing."""
    data_def: str | None = None
    """With `extract_only`: the pages of this dataDef, whether or not it changed."""
    only_new: bool = False
    """Whether files get only rows that no earlier run has."""


def build_supervisor(
    options: RunOptions, lock: Lock, *, cancelled: Callable[[], bool] = lambda: False, wakeup_fd: int | None = None
) -> Supervisor:
    """A supervisor ready to start. The lock is held; nothing runs yet.

    `nudge`: the file by which nodes wake whoever ticks it (`engine.runtime.wakeup`). Retries a busy database until
    `cancelled` returns True, then raises DatabaseBusy. Raises StorageError on a damaged or unusable one, and where the
    folder cannot be written; UsageError on a bad `-o`.
    """
    folder = options.folder.absolute()
    _retry(lambda: migrate_databases(folder), cancelled)
    _make_dirs(folder)
    db = Database.open(folder / CRAWL, busy_seconds=_BUSY_SECONDS)
    try:
        edition = PreparedDefs.from_definitions(options.definitions)
        _retry(lambda: _fence_leftovers(db, folder), cancelled)
        run, epoch, change, steps = _retry(lambda: _begin_run(db, options, folder, edition), cancelled)
        loss = _retry(lambda: _clean_pages(db, folder, run), cancelled)
    except BaseException:
        db.close()
        raise
    lock.write_holder(run.id)
    rings = QueueMaintainer(db, folder, run.seq)
    scribe = AppenderProcess(db, folder, run=run.seq, supervisor=epoch, settings=options.settings)
    crew = NodePool(
        db, folder, run=run.seq, supervisor=epoch, settings=options.settings, ring=rings.ring, appender=scribe, wakeup_fd=wakeup_fd
    )  # fmt: skip
    places = create_placements(run.seq, options.definitions, options.settings)
    seeding = Seeder(db, run, options.definitions, change.version, places)
    checkpoints = CheckpointTracker(db, run.seq, steps, StateFile(db, folder, run))
    _retry(lambda: checkpoints.update(lambda: False), cancelled)
    reload = None
    if options.watched_defs is not None:
        base, target = run.base_url, folder / "output" / run.id
        watcher = DefsWatcher(
            options.watched_defs, options.defs_fingerprint, lambda new: build_step_graph(new.definitions, base_url=base, output=options.output)
        )  # fmt: skip
        reload = Reloader(
            db, run.seq, watcher, options.settings, output_dir=target, output_file=options.output, on_publish=checkpoints.apply_graph,
            current=edition,
        )  # fmt: skip
    upkeep = DefsSync(
        db, run.seq, options.settings, rings.ring, reloader=reload, extract_only=options.extract_only,
        notices=[text for text in (change.text if change.changed else "", loss) if text],
    )  # fmt: skip
    return Supervisor(
        db, folder, run=run, epoch=epoch, settings=options.settings, lock=lock, node_pool=crew, queue_maintainer=rings, seeder=seeding,
        checkpoints=checkpoints, defs_sync=upkeep,
    )  # fmt: skip


def _retry(work: Callable[[], _T], cancelled: Callable[[], bool]) -> _T:
    """Wait for other writers at the start; a full disk is reported at once."""
    return retry_busy(work, seconds=_START_BUSY_SECONDS, cancelled=cancelled, wait_for_space=False)


def _make_dirs(folder: Path) -> None:
    try:
        for part in ("beats", "logs", "output"):
            (folder / part).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}", "Mend it, or use another --data.") from error


def _fence_leftovers(db: Database, folder: Path) -> None:
    """End what a crashed supervisor left, and write that it is over: no late write of it can count."""
    left = nodes.list_left_over(db)
    appenders = nodes.list_left_over_appenders(db)
    for identity in [*(n[2] for n in left), *(a[1] for a in appenders)]:
        if identity:
            kill_leftover(identity)
    now = time.time()
    with db.transaction():
        for epoch, number, _ in left:
            nodes.set_state(db, epoch, NodeState.DEAD)
            nodes.set_heart(db, epoch, HeartbeatState.ASYSTOLE)
            _, role = nodes.get_state_and_role(db, epoch)
            nodes.set_role(db, epoch, Role.DEAD_RUNNER if role is Role.RUNNER else Role.DEAD_BACKUP_RUNNER)
            nodes.end(db, epoch, "its supervisor died", now)
            jobs.release(db, epoch, f"the supervisor of n{number} died", crashed=False)
        for epoch, _ in appenders:
            nodes.end_appender(db, epoch, NodeState.DEAD, now)
        _rebase_clocks(db)
    for beat in (folder / "beats").iterdir():
        with contextlib.suppress(OSError):
            beat.unlink()


def _rebase_clocks(db: Database) -> None:
    """After a reboot the boot-time clock starts over: what was left of each wait is waited anew."""
    told = supervisors.get_meta(db, "boot")
    if told:
        boot, _, seen = told.partition(" ")
        if boot != boot_id():
            shift = boottime() - float(seen or 0)
            jobs.shift_deadlines(db, shift)
            hosts.shift_deadlines(db, shift)
    supervisors.record_clock(db)


def _begin_run(
    db: Database, plan: RunOptions, folder: Path, edition: PreparedDefs
) -> tuple[Run, int, PublishResult, StepGraph]:
    """Choose the run, publish the defs, declare the outputs: one transaction. Returns run, epoch, change, steps."""
    now = time.time()
    with db.transaction():
        run = runs.latest(db) if plan.extract_only else None if plan.fresh else runs.latest_unfinished(db)
        if run is None and plan.extract_only:
            raise UsageError(
                f"{plan.folder}: nothing was crawled here", "Run `crawl-console run` first, or give --data."
            )
        resumed = run is not None
        check_seedable(plan.definitions, plan.settings.base_url or (run.base_url if run else None))
        if run is None:
            runs.supersede(db)
            run = runs.create(db, plan.settings.base_url, now)
        epoch = supervisors.begin(db, identity_of(os.getpid()) or "", run.seq, now)
        commands.expire(db, epoch, now)
        runs.begin(db, run.seq, now)
        runs.set_limits(db, run.seq, plan.settings.max_pages, plan.settings.base_url)
        runs.hold_for_disk(db, run.seq, False)
        jobs.release_all(db, run.seq, "its supervisor died")
        jobs.resume_incomplete(db, run.seq)
        runs.set_extract_only(db, run.seq, plan.extract_only)
        if plan.extract_only:
            runs.set_state(db, run.seq, RunState.SEEDING)  # unfinished from now on, wherever this ends
        sequences.clear_rings(db, run.seq)
        sequences.recount(db, run.seq)
        runs.recount(db, run.seq)
        target = folder / "output" / run.id
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = runs.get(db, run.seq)
        steps = build_step_graph(plan.definitions, base_url=run.base_url, output=plan.output)
        change = publish_defs(
            db, run, edition, plan.settings, output_dir=target, output_file=plan.output, forced_data_def=plan.data_def,
            only_new=plan.only_new, on_publish=partial(tracker.publish_steps, db, run.seq), graph=steps,
        )  # fmt: skip
        # the settings may be others than last time, whatever the defs say
        for host in hosts.list_keys(db, run.seq):
            placement.apply_host_policy(db, run.seq, host, resolve_host_policy(plan.definitions, plan.settings, host))
        for group in plan.definitions.task_groups:
            sequences.set_max_pages(db, run.seq, group.name, group.max_pages)
        store_problems(db, [])
        word = "resumed" if resumed else "begun"
        text = f"run {run.id} {word}, defs v{change.version}"
        events.add(db, run.seq, [Event(now, "INFO", "supervisor", "run", text)])
    return runs.get(db, run.seq), epoch, change, steps


def _clean_pages(db: Database, folder: Path, run: Run) -> str:
    """Bodies that a crash left without a document are thrown away, and documents that lost theirs serve no more.

    Returns what an operator should know of that.
    """
    pages = documents.PageStore(folder, busy_seconds=_BUSY_SECONDS)
    try:
        lost = pages.reconcile(db, run.seq)
        if run.state is not RunState.NEW:
            pages.delete_orphans(db)
    finally:
        pages.close()
    return documents.lost_pages_message(lost) if lost else ""
