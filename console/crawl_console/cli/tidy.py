"""Deletes runs for a command, unless they are in use or may not go."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_console.cli.output import show_count
from crawl_console.format import format_date_time, plural
from crawl_engine.errors import LockHeld, UsageError, megabytes
from crawl_engine.supervise.lock import Lock

if TYPE_CHECKING:
    from crawl_engine.store.db.connector import Database
    from crawl_engine.supervise.retention.choice import RunSize


@contextlib.contextmanager
def try_lock(data: Path) -> Iterator[Lock | None]:
    """The lock of a data dir; None while a supervisor holds it."""
    try:
        lock = Lock.acquire(data)
    except LockHeld:
        yield None
        return
    try:
        yield lock
    finally:
        lock.release()


def describe_size(size: "RunSize") -> str:
    """One line for a run that is to be deleted."""
    past = size.past
    return (
        f"  {past.id}  {format_date_time(past.created_at)}  {past.state}  {plural(past.done, 'page')},"
        f" {plural(past.rows, 'row')}, about {megabytes(size.bytes)}"
    )


def delete_runs(
    db: "Database", data: Path, chosen: "Sequence[RunSize]", *, force: bool, locked: bool, shown: bool
) -> None:  # fmt: skip
    """Delete runs, and finish deletions that a kill cut short. `locked`: this process holds the lock.

    Raises UsageError if a run is in use or may not be deleted.
    """
    from crawl_engine.store.tables.run import supervisors
    from crawl_engine.store.transactions import delete_run
    from crawl_engine.supervise.retention.deletion import delete_left

    if locked and supervisors.current(db) is not None:
        from crawl_engine.supervise.nodes.leftovers import fence_leftovers

        fence_leftovers(db, data)  # processes of a crashed supervisor must not write to a run that goes
    for size in chosen:
        check = partial(check_deletable, db, size.past.seq, size.past.id, force=force, locked=locked)
        delete_run.begin(db, size.past.seq, check)
        _tell_latest_run(db, f"run {size.past.id} is deleted")
    with show_count("rows, jobs and files deleted", shown=shown) as add:
        for count in delete_left(db, data, with_documents=locked, with_orphans=locked):
            add(count)
    if chosen and locked:
        _refresh_state_file(db, data)


def _tell_latest_run(db: "Database", text: str) -> None:
    from crawl_engine.store.tables.run import events, runs

    latest = runs.latest(db)
    if latest is not None:
        with db.transaction():
            events.add(db, latest.seq, [events.Event(time.time(), "INFO", "operator", "command", text)])


def check_deletable(db: "Database", run: int, id_: str, *, force: bool, locked: bool) -> None:
    """Raise UsageError if a run may not be deleted now."""
    from crawl_engine.store.tables.run import runs

    latest = runs.latest(db)
    is_latest = latest is not None and latest.seq == run
    if not locked and is_latest:
        raise UsageError(
            f"run {id_} is in use: another process holds {db.path.parent}",
            "Wait for its end; `crawl-console cancel` stops a crawl.",
        )
    if not locked and runs.list_done_ids(db)[:1] == [id_]:
        raise UsageError(
            f"run {id_} is in use: another process holds {db.path.parent}, and output/latest leads to this run",
            "Wait for its end; after a crawl that is DONE, output/latest leads to its run.",
        )
    if latest is not None and is_latest and latest.state != "DONE" and not force:
        raise UsageError(
            f"run {id_} is unfinished ({latest.state}): `crawl-console run` resumes it",
            "Add --force to delete it all the same.",
        )


def _refresh_state_file(db: "Database", data: Path) -> None:
    """Write the state file of the run that is the latest now."""
    from crawl_engine.store.tables.run import runs
    from crawl_engine.supervise.checkpoints.state_file import STATE_FILE_NAME, StateFile

    latest = runs.latest(db)
    if latest is None:
        (data / STATE_FILE_NAME).unlink(missing_ok=True)
    else:
        StateFile(db, latest).refresh()
