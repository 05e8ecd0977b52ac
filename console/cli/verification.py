"""Verifies a run for `state --verify`, marks what is damaged where that is possible, and prints the result."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from console.cli.output import write_json, write_lines, write_stderr
from console.format import align_columns, plural
from console.sanitize import clean

if TYPE_CHECKING:
    from engine.store.db.connector import Database
    from engine.store.pages.documents import PageStore
    from engine.store.tables.run.runs import Run
    from engine.supervise.verification.findings import GroupResult, Verification

_HEADINGS = ("GROUP", "STATUS", "DOCUMENTS", "ROWS", "REASON")
_MAX_FILES = 20
_REPAIRED_BY_RUN = "the next `crawl-console run` repairs what is invalid"


class _Outcome(Struct, frozen=True):
    """A verification, whether its damage was marked now, and what the operator should know."""

    verification: "Verification"
    marked: bool = False
    note: str = ""


def verify_run(data: Path, run_id: str | None, *, as_json: bool) -> int:
    """Verify and print; returns the exit code. Raises NoRun, UsageError, StorageError, DatabaseBusy."""
    from console.client import open_latest_run

    with open_latest_run(data, run_id=run_id) as (db, run), _open_pages(data) as pages:
        outcome = _verify_and_mark(db, data, run, pages)
    result = outcome.verification
    if as_json:
        record = {
            "run": run.id, "valid": result.is_valid, "marked": outcome.marked, "note": outcome.note or None,
            "groups": [group.as_dict() for group in result.groups],
            "outputs": [output.as_dict() for output in result.outputs],
            "files": [file.as_dict() for file in result.files],
        }  # fmt: skip
        write_json(record)
    else:
        write_lines(f"run {run.id}  {run.state}", *_lines(result))
        if outcome.note:
            write_stderr(outcome.note)
    return 0 if result.is_valid else 1


@contextlib.contextmanager
def _open_pages(data: Path) -> "Iterator[PageStore | None]":
    from engine.store.db.connector import is_immutable
    from engine.store.db.schema import PAGES
    from engine.store.pages.documents import PageStore

    path = data / PAGES
    if not path.exists():
        yield None
        return
    pages = PageStore(data, read_only=True, immutable=is_immutable(path))
    try:
        yield pages
    finally:
        pages.close()


def _verify_and_mark(db: "Database", data: Path, run: "Run", pages: "PageStore | None") -> _Outcome:
    from console.client import has_supervisor
    from engine.errors import LockHeld, StorageError
    from engine.store.tables.run import runs
    from engine.supervise.lock import Lock
    from engine.supervise.verification.verifier import verify

    version = db.data_version
    result = verify(db, data, run, pages)
    if not result.has_damage:
        return _Outcome(result, note="" if result.is_valid else _REPAIRED_BY_RUN)
    latest = runs.latest(db)
    if latest is None or latest.seq != run.seq:
        return _Outcome(result, note="nothing was marked: only the latest run can be worked again")
    if has_supervisor(db):
        return _Outcome(result, note="nothing was marked: a supervisor is alive; verify again when it has ended")
    try:
        lock = Lock.acquire(data)
    except (LockHeld, StorageError) as error:
        return _Outcome(result, note=f"nothing was marked: {error.message}")
    try:
        if db.data_version != version:  # another command wrote meanwhile
            result = verify(db, data, run, pages)
        if result.has_damage:
            _mark(data, run, result)
    finally:
        lock.release()
    return _Outcome(result, marked=result.has_damage, note=_REPAIRED_BY_RUN)


def _mark(data: Path, run: "Run", result: "Verification") -> None:
    from console.client import open_latest_run
    from engine.supervise.checkpoints.state_file import StateFile
    from engine.supervise.verification.repair import mark_damage

    with open_latest_run(data, run_id=run.id, write=True) as (db, _):
        mark_damage(db, run.seq, result)
        StateFile(db, data, run).refresh()


def _lines(result: "Verification") -> list[str]:
    table = align_columns([_HEADINGS, *map(_row, result.groups)])
    outputs = [
        f"{output.path} ({output.data_def}): {output.status.replace('_', ' ')}: {output.reason}"
        for output in result.outputs
        if output.status != "valid"
    ]
    files = [f"{file.path}: {file.reason}" for file in result.files[:_MAX_FILES]]
    if len(result.files) > _MAX_FILES:
        files.append(f"{len(result.files) - _MAX_FILES:,} more files differ")
    return [clean(line) for line in (*table, *outputs, *files)]


def _row(group: "GroupResult") -> Sequence[str]:
    documents = "-" if group.documents is None else f"{group.documents:,}"
    notes = [group.reason] if group.reason else []
    if group.pruned:
        notes.append(f"{plural(group.pruned, 'document')} {'is' if group.pruned == 1 else 'are'} pruned")
    rows = "-" if group.rows is None else f"{group.rows:,}"
    return group.group, group.status.replace("_", " "), documents, rows, "; ".join(notes)
