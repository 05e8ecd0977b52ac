"""Verifies a run for `state --verify`, and prints the differences and the commands that mend them."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import align_columns, plural
from crawl_console.sanitize import clean

if TYPE_CHECKING:
    from crawl_engine.store.pages.page_store import PageStore
    from crawl_engine.supervise.verification.verifier import GroupResult, Verification

_HEADINGS = ("GROUP", "STATUS", "DOCUMENTS", "ROWS", "REASON")
_MAX_FILES = 20


def verify_run(data: Path, run_id: str | None, *, as_json: bool) -> int:
    """Verify and print; returns the exit code. Raises NoRun, UsageError, StorageError, DatabaseBusy."""
    from crawl_console.client import open_latest_run
    from crawl_engine.supervise.verification.verifier import verify

    with open_latest_run(data, run_id=run_id) as (db, run), _open_pages(data) as pages:
        result = verify(db, data, run, pages)
    if as_json:
        record = {
            "run": run.id, "valid": result.is_valid, "commands": list(result.commands),
            "groups": [group.as_dict() for group in result.groups],
            "outputs": [output.as_dict() for output in result.outputs],
            "files": [file.as_dict() for file in result.files],
        }  # fmt: skip
        write_json(record)
    else:
        write_lines(f"run {run.id}  {run.state}", *_lines(result))
        if result.commands:
            write_stderr("What differs is mended by:")
            for command in result.commands:
                write_stderr(clean(f"  {command}"))
    return 0 if result.is_valid else 1


@contextlib.contextmanager
def _open_pages(data: Path) -> "Iterator[PageStore | None]":
    from crawl_engine.store.db.data_dir import has_store
    from crawl_engine.store.db.schema import PAGES
    from crawl_engine.store.pages.page_store import PageStore

    if not has_store(data, PAGES):
        yield None
        return
    with contextlib.closing(PageStore.open_read_only(data)) as pages:
        yield pages


def _lines(result: "Verification") -> list[str]:
    table = align_columns([_HEADINGS, *map(_row, result.groups)])
    outputs = [
        f"{output.path} ({output.data_def}): {output.status.replace('_', ' ')}: {output.reason}".lstrip()
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
