"""Cleans up after an earlier supervisor: processes, node rows, clocks, unreferenced pages."""

import time
from collections.abc import Sequence
from pathlib import Path

from crawl_engine.errors import StorageError
from crawl_engine.model.run import RunState
from crawl_engine.processes.child import kill_leftover
from crawl_engine.runtime.beat_file import is_beat_file, is_beat_name
from crawl_engine.runtime.file_folder import remove_dead_parts, remove_profiles
from crawl_engine.store.db.connector import Database
from crawl_engine.store.db.location import read_location
from crawl_engine.store.pages import documents, temporary
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.host import host_speeds, hosts
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.run import machines, nodes, supervisors
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.store.tables.run.supervisors import HelperRow
from crawl_engine.store.transactions.takeover import end_processes


def fence_leftovers(db: Database, folder: Path) -> None:
    """Kill the processes of a crashed supervisor, and record their end so that no late write of theirs counts.

    Raises UsageError while machines work on a database that they share.
    """
    if read_location(folder) is not None:
        machines.check_alone(db)
    else:
        kill_local_leftovers(db, folder, [None], helpers=supervisors.list_helpers(db))
    with db.transaction():
        end_processes(db, None, "its supervisor died", time.time())
        supervisors.set_helpers(db, [])
        _rebase_clocks(db)


def kill_local_leftovers(
    db: Database, folder: Path, epochs: Sequence[int | None], *, helpers: Sequence[HelperRow] = ()
) -> None:  # fmt: skip
    """Kill what these supervisors (None: any) left on this machine, and these helpers."""
    identities = [helper.identity for helper in helpers]
    for epoch in epochs:
        identities += [identity or "" for *_, identity in nodes.list_left_over(db, epoch)]
        identities += [identity or "" for _, identity in nodes.list_left_over_appenders(db, epoch)]
    for identity in filter(None, identities):
        kill_leftover(identity)
    _delete_beats(folder / "beats")
    remove_profiles(folder)


def clean_stored(db: Database, folder: Path, run: Run, *, busy_seconds: float) -> str:
    """Delete unneeded page bodies and parts of files, and documents without their body.

    Returns a warning, or ''.
    """
    remove_dead_parts(folder, run.id)
    pages = PageStore(folder, busy_seconds=busy_seconds)
    try:
        lost = pages.reconcile(db, run.seq)
        temporary.begin(db, pages, run.seq)
        if run.state is not RunState.NEW:
            pages.delete_orphans(db)
    finally:
        pages.close()
    return documents.lost_pages_message(lost) if lost else ""


def _delete_beats(folder: Path) -> None:
    """Delete the heartbeats of dead processes. The folder may be a link: other files stay.

    Raises StorageError for a file of another program in the place of a heartbeat, since a node would overwrite it.
    """
    try:
        for path in folder.iterdir():
            if not is_beat_name(path.name):
                continue
            if not is_beat_file(path):
                raise StorageError(
                    f"{path}: not a heartbeat file of crawl-console", "Move it away, or use another --data directory."
                )
            path.unlink()
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}", "Fix its permissions, or use another --data.") from (
            error
        )


def keep_deadlines(db: Database) -> None:
    """Keep the rest of each deadline after a reboot, when the clock starts at zero, or in a copy of another store."""
    with db.transaction():
        _rebase_clocks(db)


def _rebase_clocks(db: Database) -> None:
    shift = supervisors.clock_shift(db)
    if shift is not None:
        jobs.shift_deadlines(db, shift)
        hosts.shift_deadlines(db, shift)
        host_speeds.forget_times(db)
    supervisors.record_clock(db)
