"""Putting a supervisor together: what earlier ones left is fenced, a run begun or resumed, its outputs declared."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.defs.watcher import Watcher
from engine.errors import StorageError, UsageError
from engine.fetch.host_policy import manners_of
from engine.model.definition import Definitions
from engine.model.fingerprint import Edition
from engine.model.node import Heart, NodeState, Role
from engine.model.run import RunState
from engine.runtime.clock import boot_id, boottime
from engine.runtime.process_identity import identity_of
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.db.retry_busy import patient
from engine.store.db.schema import CRAWL, prepare
from engine.store.pages import documents
from engine.store.tables import commands, events, hosts, jobs, nodes, runs, sequences, supervisors
from engine.store.tables.events import Event
from engine.store.tables.runs import Run
from engine.store.transactions import placement
from engine.supervise.appender_process import Scribe
from engine.supervise.checkpoints import tracker
from engine.supervise.checkpoints.state_file import StateFile
from engine.supervise.checkpoints.step_graph import Blueprint, blueprint
from engine.supervise.checkpoints.tracker import Checkpointing
from engine.supervise.child_process import kill_stranger
from engine.supervise.doorbell_repair import Rings
from engine.supervise.lock import Lock
from engine.supervise.node_pool import Crew
from engine.supervise.reload.defs_sync import Upkeep
from engine.supervise.reload.publish import Change, publish
from engine.supervise.reload.reloader import Reload, remember_problems
from engine.supervise.seeding import Seeding, places_of, refuse_unseedable
from engine.supervise.supervisor import Supervisor

_TICK_SECONDS = 0.5
"""A tick must not hang: what is busy now is done at a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a start asks for."""

    folder: Path
    definitions: Definitions
    settings: Settings
    fresh: bool = False
    """Begin a new run even though one is unfinished."""
    output: Path | None = None
    """The file of `-o`."""
    watched: Path | None = None
    """Where the defs were loaded from, to be watched; None: they are not."""
    seen: str = ""
    """The fingerprint of what was there before it was loaded."""
    extract_only: bool = False
    """Work the stored pages of the latest run anew, fetch nothing."""
    data_def: str | None = None
    """With `extract_only`: the pages of this dataDef, whether or not it changed."""
    only_new: bool = False
    """Whether files get only rows that no earlier run has."""


def build_supervisor(
    plan: Plan, lock: Lock, *, given_up: Callable[[], bool] = lambda: False, nudge: int | None = None
) -> Supervisor:
    """A supervisor ready to start. The lock is held; nothing runs yet.

    `nudge`: the file by which nodes wake whoever ticks it (`engine.runtime.wakeup`). Retries a busy database until
    `given_up` returns true. Raises StorageError on a damaged or unusable one, and where the folder cannot be written;
    UsageError on a bad `-o`.
    """
    folder = plan.folder.absolute()
    patient(lambda: prepare(folder), given_up=given_up)
    _make_rooms(folder)
    db = Database.open(folder / CRAWL, busy_seconds=_TICK_SECONDS)
    try:
        edition = Edition.of(plan.definitions)
        patient(lambda: _fence_left_overs(db, folder), given_up=given_up)
        run, epoch, change, steps = patient(lambda: _begin(db, plan, folder, edition), given_up=given_up)
        loss = patient(lambda: _tidy(db, folder, run), given_up=given_up)
    except BaseException:
        db.close()
        raise
    lock.tell(run.id)
    rings = Rings(db, folder, run.seq)
    scribe = Scribe(db, folder, run=run.seq, supervisor=epoch, settings=plan.settings)
    crew = Crew(
        db, folder, run=run.seq, supervisor=epoch, settings=plan.settings, ring=rings.ring, scribe=scribe, nudge=nudge
    )  # fmt: skip
    places = places_of(run.seq, plan.definitions, plan.settings)
    seeding = Seeding(db, run, plan.definitions, change.version, places)
    checkpoints = Checkpointing(db, run.seq, steps, StateFile(db, folder, run))
    patient(lambda: checkpoints.look(lambda: False), given_up=given_up)
    reload = None
    if plan.watched is not None:
        base, target = run.base_url, folder / "output" / run.id
        watcher = Watcher(
            plan.watched, plan.seen, lambda new: blueprint(new.definitions, base_url=base, output=plan.output)
        )  # fmt: skip
        reload = Reload(
            db, run.seq, watcher, plan.settings, target=target, flag=plan.output, adopt=checkpoints.adopt,
            current=edition,
        )  # fmt: skip
    upkeep = Upkeep(
        db, run.seq, plan.settings, rings.ring, reload=reload, extract_only=plan.extract_only,
        news=[text for text in (change.text if change.changed else "", loss) if text],
    )  # fmt: skip
    return Supervisor(
        db, folder, run=run, epoch=epoch, settings=plan.settings, lock=lock, crew=crew, rings=rings, seeding=seeding,
        checkpoints=checkpoints, upkeep=upkeep,
    )  # fmt: skip


def _make_rooms(folder: Path) -> None:
    try:
        for part in ("beats", "logs", "output"):
            (folder / part).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}", "Mend it, or use another --data.") from error


def _fence_left_overs(db: Database, folder: Path) -> None:
    """End what a crashed supervisor left, and write that it is over: no late write of it can count."""
    left = nodes.left_over(db)
    appenders = nodes.appenders_left_over(db)
    for identity in [*(n[2] for n in left), *(a[1] for a in appenders)]:
        if identity:
            kill_stranger(identity)
    now = time.time()
    with db.transaction():
        for epoch, number, _ in left:
            nodes.move(db, epoch, NodeState.DEAD)
            nodes.set_heart(db, epoch, Heart.ASYSTOLE)
            _, role = nodes.standing(db, epoch)
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
    told = supervisors.recall(db, "boot")
    if told:
        boot, _, seen = told.partition(" ")
        if boot != boot_id():
            shift = boottime() - float(seen or 0)
            jobs.rebase(db, shift)
            hosts.rebase(db, shift)
    supervisors.note_clock(db)


def _begin(db: Database, plan: Plan, folder: Path, edition: Edition) -> tuple[Run, int, Change, Blueprint]:
    """Choose the run, publish the defs, declare the outputs: one transaction. Returns run, epoch, change, steps."""
    now = time.time()
    with db.transaction():
        run = runs.latest(db) if plan.extract_only else None if plan.fresh else runs.unfinished(db)
        if run is None and plan.extract_only:
            raise UsageError(
                f"{plan.folder}: nothing was crawled here", "Run `crawl-console run` first, or give --data."
            )
        resumed = run is not None
        refuse_unseedable(plan.definitions, plan.settings.base_url or (run.base_url if run else None))
        if run is None:
            runs.supersede(db)
            run = runs.create(db, plan.settings.base_url, now)
        epoch = supervisors.begin(db, identity_of(os.getpid()) or "", run.seq, now)
        commands.expire(db, epoch, now)
        runs.begin(db, run.seq, now)
        runs.set_limits(db, run.seq, plan.settings.max_pages, plan.settings.base_url)
        runs.hold_for_disk(db, run.seq, False)
        jobs.release_all(db, run.seq, "its supervisor died")
        jobs.resume(db, run.seq)
        runs.fetch_nothing(db, run.seq, plan.extract_only)
        if plan.extract_only:
            runs.move(db, run.seq, RunState.SEEDING)  # unfinished from now on, wherever this ends
        sequences.silence(db, run.seq)
        sequences.recount(db, run.seq)
        runs.recount(db, run.seq)
        target = folder / "output" / run.id
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = runs.get(db, run.seq)
        steps = blueprint(plan.definitions, base_url=run.base_url, output=plan.output)
        change = publish(
            db, run, edition, plan.settings, target=target, flag=plan.output, forced=plan.data_def,
            only_new=plan.only_new, adopt=partial(tracker.publish, db, run.seq), steps=steps,
        )  # fmt: skip
        # the settings may be others than last time, whatever the defs say
        for host in hosts.keys(db, run.seq):
            placement.treat(db, run.seq, host, manners_of(plan.definitions, plan.settings, host))
        for group in plan.definitions.task_groups:
            sequences.limit(db, run.seq, group.name, group.max_pages)
        remember_problems(db, [])
        word = "resumed" if resumed else "begun"
        text = f"run {run.id} {word}, defs v{change.version}"
        events.add(db, run.seq, [Event(now, "INFO", "supervisor", "run", text)])
    return runs.get(db, run.seq), epoch, change, steps


def _tidy(db: Database, folder: Path, run: Run) -> str:
    """Bodies that a crash left without a document are thrown away, and documents that lost theirs serve no more.

    Returns what an operator should know of that.
    """
    pages = documents.Pages(folder, busy_seconds=_TICK_SECONDS)
    try:
        lost = pages.rejoin(db, run.seq)
        if run.state is not RunState.NEW:
            pages.sweep(db)
    finally:
        pages.close()
    return documents.lost_told(lost) if lost else ""
