"""Opens and reads a data dir, and sends it commands. Prints nothing."""

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from crawl_engine.errors import LockHeld, SupervisorNotRunning, UsageError, suggest
from crawl_engine.model.run import Alarm, RunState, Stage
from crawl_engine.runtime.beat_file import SUPERVISOR_BEAT, read_beat
from crawl_engine.runtime.clock import store_time
from crawl_engine.runtime.process_identity import data_dir_of, is_process_alive
from crawl_engine.store.db.connector import (
    BUSY_SECONDS,
    Database,
    DatabaseBusy,
    connect,
    connect_for_reading,
    has_no_wal,
    is_immutable,
)
from crawl_engine.store.db.data_dir import has_store
from crawl_engine.store.db.file_header import CRAWL, PAGES
from crawl_engine.store.read import snapshot
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT, NodeRow, Snapshot
from crawl_engine.store.tables.run import commands, deleted_runs, runs, supervisors
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.supervise.lock import Lock, read_holder

if TYPE_CHECKING:
    from crawl_engine.store.read.browse import JobDetail, JobLine

_READ_BUSY_SECONDS = 5.0
_MAX_RUNS_LISTED, _MAX_GROUPS_EXPLAINED = 5, 3
_NO_SUPERVISOR = "no supervisor runs: `crawl-console run` resumes it"
_REPLY_TIMEOUT, _REPLY_POLL_SECONDS = 10.0, 0.02


class NoRun(UsageError):
    """The data dir has no run."""


@contextlib.contextmanager
def open_latest_run(data: Path, *, run_id: str | None = None, write: bool = False) -> Iterator[tuple[Database, Run]]:
    """The database and the latest run, or that of an id.

    Raises NoRun and other UsageErrors, StorageError, DatabaseBusy.
    """
    path = data / CRAWL
    if not has_store(data):
        raise _no_run(data)
    immutable = not write and is_immutable(path)
    db = connect(
        path, read_only=not write, immutable=immutable, busy_seconds=BUSY_SECONDS if write else _READ_BUSY_SECONDS
    )
    try:
        with check_unchanged(path) if immutable else contextlib.nullcontext():
            run = runs.latest(db) if db.has_tables() else None
            if run is None:
                raise _no_run(data)
            yield db, run if run_id is None else find_run(db, run_id)
    finally:
        db.close()


def read_arguments(data: Path, run_id: str | None = None) -> dict[str, str]:
    """The values of `-a` of the latest run, or that of an id; empty without a run.

    Raises UsageError on an unknown id, StorageError, DatabaseBusy.
    """
    try:
        with open_latest_run(data, run_id=run_id) as (db, run):
            return runs.get_arguments(db, run.seq)
    except NoRun:
        return {}


def choose_arguments(
    data: Path, given: dict[str, str], *, fresh: bool = False, finished: bool = False
) -> dict[str, str]:  # fmt: skip
    """The values of `-a` with which the defs are loaded: a run that is resumed keeps its own.

    `finished`: whether the latest run is worked even if it is DONE. Raises UsageError if others are given.
    """
    if fresh:
        return given
    try:
        with open_latest_run(data) as (db, run):
            if run.state is RunState.DONE and not finished:
                return given
            kept = runs.get_arguments(db, run.seq)
    except NoRun:
        return given
    if given and given != kept:
        was = " ".join(f"-a {name}={value}" for name, value in kept.items())
        raise UsageError(
            f"run {run.id} was started {f'with {was}' if was else 'without -a'}, and keeps its arguments",
            "Leave out -a to resume it, or give --fresh to begin a new run.",
        )
    return kept


@contextlib.contextmanager
def open_alone(data: Path, command: str) -> Iterator[Database]:
    """The database while no crawl can run, since this process holds the lock of the data dir.

    Raises LockHeld if a crawl or another such command runs, NoRun if there never was a run, StorageError, DatabaseBusy.
    """
    from crawl_engine.supervise.nodes.leftovers import fence_leftovers

    database = open_database(data)  # before the lock, which would make a folder that does not exist
    if database is None:
        raise _no_run(data)
    database.close()
    try:
        lock = Lock.acquire(data)
    except LockHeld as held:
        remedy = "Nothing was changed. Wait for its end; `crawl-console cancel` stops a crawl."
        raise LockHeld(f"{command}: {held.message}", remedy) from held
    try:
        with contextlib.closing(connect(data / CRAWL)) as db:
            fence_leftovers(db, data)  # a node of a killed supervisor may still work
            yield db
    finally:
        lock.release()


def _no_run(data: Path) -> NoRun:
    return NoRun(f"{data}: no run yet", "Start one with `crawl-console run`, or give --data.")


def find_run(db: Database, id_: str) -> Run:
    """A run by its id. Raises UsageError, which lists the latest ones, or names the oldest if the run was deleted."""
    run = runs.get_by_id(db, id_)
    if run is None:
        if deleted_runs.is_deleted(db, id_):
            oldest = runs.oldest_id(db)
            raise UsageError(
                f"run {id_} was deleted", f"The oldest run that is left is {oldest}." if oldest else "No run is left."
            )
        latest = runs.list_ids(db, _MAX_RUNS_LISTED)
        raise UsageError(f"unknown run '{id_}'{suggest(id_, latest)}", "`crawl-console runs` lists the runs.")
    return run


def open_database(data: Path) -> Database | None:
    """The database of a data dir, read-only; None if it does not exist. Raises StorageError."""
    path = data / CRAWL
    if not has_store(data):
        return None
    db = connect_for_reading(path, busy_seconds=_READ_BUSY_SECONDS)
    try:
        if db.has_tables():
            return db
    except BaseException:
        db.close()
        raise
    db.close()
    return None


def open_pages(data: Path) -> Database | None:
    """The database of pages, read-only; None if it does not exist. Raises StorageError."""
    path = data / PAGES
    if not has_store(data, PAGES):
        return None
    return connect_for_reading(path, busy_seconds=_READ_BUSY_SECONDS)


def require_database_path(data: Path) -> Path:
    """The path of a data dir's database. Raises UsageError if it does not exist or is not ours."""
    path = data / CRAWL
    if not has_store(data):
        raise UsageError(f"{data}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    return path


@contextlib.contextmanager
def check_unchanged(path: Path) -> Iterator[None]:
    """Read a database opened as immutable. Raises DatabaseBusy if a crawl wrote to it: the reads may be torn."""
    before = path.stat()
    try:
        yield
    finally:
        now = path.stat()
        if not has_no_wal(path) or (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size):
            raise DatabaseBusy(f"{path}: a crawl started while it was read", "Run the command again.")


def read_snapshot(data: Path) -> Snapshot:
    """The snapshot of a data dir, EMPTY_SNAPSHOT without a database. Raises StorageError."""
    db = open_database(data)
    if db is None:
        return EMPTY_SNAPSHOT
    try:
        return snapshot.read(db)
    finally:
        db.close()


def has_supervisor(db: Database) -> bool:
    """Whether a supervisor of the data dir is alive."""
    current = supervisors.current(db)
    return current is not None and current.is_alive


def supervisor_pid(view: Snapshot) -> int | None:
    """The pid of the supervisor of a snapshot; None if it is not alive."""
    return view.epoch.pid if view.epoch is not None else None


def end_orphans(view: Snapshot) -> Snapshot:
    """Correct a snapshot without a living supervisor: the processes recorded as alive have ended with it."""
    from crawl_engine.judge.trouble import without_supervisor

    run = view.run
    if run is None:
        return view
    view = replace(
        view, alarms=without_supervisor(view.alarms, run), hosts=[replace(host, pages_per_s=0.0) for host in view.hosts]
    )
    if run.stage == Stage.SHUTDOWN_COMPLETE:
        return view
    return replace(
        view,
        run=replace(run, stage=Stage.INTERRUPTED),
        nodes=[node if node.pid is None else _end_node(node) for node in view.nodes],
        appenders=[replace(o, pid=None, beat_age=None, rows_per_s=0.0, bytes_per_s=0.0) for o in view.appenders],
        hosts=[end_host(host) for host in view.hosts],
        running=0,
    )


def end_host(host: HostRow) -> HostRow:
    """A host without a living supervisor: the jobs that ran wait."""
    return replace(host, running=0, waiting=host.waiting + host.running)


def _end_node(node: NodeRow) -> NodeRow:
    reason = node.reason or "its supervisor is gone"
    return replace(
        node, state="DEAD", heart="ASYSTOLE", pid=None, beat_age=None, in_flight=0, now="", now_age=0.0, browsers=None,
        now_limit=0.0, jobs_per_s=0.0, reason=reason,
    )  # fmt: skip


def lock_holder_pid(data: Path) -> int | None:
    """The pid of the living supervisor that holds the data dir, even before it has a run."""
    holder = read_holder(data)
    return _living_pid(holder.identity if holder is not None else None)


def _living_pid(identity: str | None) -> int | None:
    """The pid in a process identity; None if that process is gone."""
    if identity is None or not is_process_alive(identity):
        return None
    return int(identity.split(":")[1])


def supervisor_alarm(data: Path, view: Snapshot) -> str | None:
    """The alarm of the living supervisor, from its beat file, which works even when no table can be written."""
    if supervisor_pid(view) is None:
        return None
    beat = read_beat(data / "beats" / SUPERVISOR_BEAT)
    return beat.now or None if beat else None


def list_alarms(view: Snapshot, disk: str | None) -> list[Alarm]:
    """The alarms of a snapshot, with what an operator acknowledged. `disk`: the alarm in the supervisor's beat."""
    alarms = list(view.alarms)
    if disk and not any(alarm.code == "disk-low" for alarm in alarms):
        alarms.insert(0, Alarm("disk-low", disk, "bad", since=time.time()))
    return [replace(alarm, acknowledged=alarm.key in view.acknowledged) for alarm in alarms]


def acknowledge(data: Path, added: Collection[str], removed: Collection[str] = ()) -> None:
    """Have alarms of the latest run count as acknowledged, and others no longer; by key."""
    with open_latest_run(data, write=True) as (db, run), db.transaction():
        runs.acknowledge(db, run.seq, added, removed)


def send_command(
    data: Path, name: str, arguments: dict[str, Any], given_by: str | None = None
) -> tuple[bool, str]:  # fmt: skip
    """Send a command to the supervisor and wait for its answer: whether it succeeded, and the supervisor's sentence.

    Raises SupervisorNotRunning if no supervisor is alive or answers in time.
    """
    view = read_snapshot(data)
    if view.epoch is None or supervisor_pid(view) is None:
        raise SupervisorNotRunning(
            f"{data}: no supervisor is running: `{name}` has no run to act on",
            "`crawl-console status` shows the latest run; --data names another folder.",
        )
    db = connect(data / CRAWL)
    try:
        with db.transaction():
            command = commands.submit(db, view.epoch.epoch, name, arguments, time.time(), given_by)
        deadline = time.monotonic() + _REPLY_TIMEOUT
        while time.monotonic() < deadline:
            state, answer = commands.get_answer(db, command)
            if state != "NEW":
                return state == "DONE", answer
            if supervisor_pid(view) is None:
                raise SupervisorNotRunning(
                    f"{data}: the supervisor ended before it answered", "See `crawl-console status`."
                )
            time.sleep(_REPLY_POLL_SECONDS)
    finally:
        db.close()
    raise SupervisorNotRunning(
        f"{data}: no answer within {_REPLY_TIMEOUT:g} s", "The supervisor may hang; see data/logs."
    )


def explain_waits(db: Database, run: int, lines: "Iterable[JobLine]") -> dict[int, str]:
    """By id: why each of these waiting jobs is not fetched now."""
    from crawl_engine.store.transactions import waits

    waiting = {j.id: (j, waits.WaitingPlace(j.kind, j.group, j.host)) for j in lines if j.state == "READY"}
    if waiting and not has_supervisor(db):
        return dict.fromkeys(waiting, _NO_SUPERVISOR)
    by_place = waits.explain(db, run, [place for _, place in waiting.values()], store_time(), partial(_find_holder, db))
    return {
        id_: (f"tried again in {line.wait:.1f} s; " if line.wait else "") + by_place[place]
        for id_, (line, place) in waiting.items()
    }


def explain_host(db: Database, run: int, host: str) -> list[str]:
    """Why jobs of a host (`name:port`) wait, a line for each of its first groups; empty if no job waits."""
    from crawl_engine.store.transactions import waits

    reasons = waits.explain_host(db, run, host, store_time(), _MAX_GROUPS_EXPLAINED, partial(_find_holder, db))
    if reasons and not has_supervisor(db):
        return [_NO_SUPERVISOR]
    return [f"{group}: {reason}" for group, reason in reasons]


def _find_holder(db: Database, host: str, slots: int) -> str | None:
    """The data dir of another crawl of this machine that holds all slots of a host that this one may take."""
    from crawl_engine.runtime.host_clock import HostClock, data_dir_path, machine_path

    data = db.path.parent.resolve()
    with contextlib.suppress(OSError):
        path = machine_path(os.environ)
        if not path.exists() or data_dir_path(data).exists():
            return None  # this crawl does not share its hosts
        with contextlib.closing(HostClock(path, str(data))) as clock:
            holders = clock.list_holders(clock.find(host), slots)
        folders = [data_dir_of(pid) or f"process {pid}" for pid in holders if pid is not None]
        if len(folders) == len(holders) and data not in [Path(folder).resolve() for folder in folders]:
            return folders[0]
    return None


def read_job(db: Database, data: Path, id_: int) -> "JobDetail | None":
    """A job in full, with the reason why it waits."""
    from crawl_engine.store.read.browse import get_detail

    pages = open_pages(data)
    try:
        detail = get_detail(db, id_, pages=pages)
    finally:
        if pages is not None:
            pages.close()
    return detail and replace(detail, why=explain_waits(db, detail.run, [detail.line]).get(id_))


def read_body(data: Path, document: int) -> bytes | None:
    """A stored body; None if it was deleted. Raises StorageError, also without a file of pages."""
    from crawl_engine.store.pages.page_store import PageStore

    pages = PageStore(data, read_only=True, immutable=has_no_wal(data / PAGES))
    try:
        return pages.read(document)
    finally:
        pages.close()


def job_as_dict(line: "JobLine") -> dict[str, Any]:
    """A job as `jobs --json` prints it; the names are stable."""
    from crawl_engine.urls import without_credentials

    return {
        "id": line.id, "kind": line.kind, "state": line.state, "group": line.group, "host": line.host,
        "url": without_credentials(line.url), "target": without_credentials(line.target) if line.target else None,
        "attempts": line.attempts, "crashes": line.crashes, "reason": line.reason, "priority": line.priority,
        "depth": line.depth, "origin": line.origin, "node": line.node, "wait": line.wait,
        "changed_at": line.changed_at,
    }  # fmt: skip
