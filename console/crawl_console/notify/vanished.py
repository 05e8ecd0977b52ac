"""Counts the rows of an earlier run that a run lacks, where the comparison is cheap."""

import contextlib
import tempfile
from pathlib import Path

from crawl_engine.append.run_changes import ComparedDef, compare_rows
from crawl_engine.errors import CrawlError, plural
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.run_comparison import find_earlier_run, has_all_rows
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.row_entries import RowEntries
from crawl_engine.store.tables.run import runs, versions

_MAX_ROWS = 50_000
"""Of both runs together: about half a second."""


def describe_vanished(db: Database, run: int) -> dict[str, str]:
    """By dataDef: how many rows an earlier run had and this one lacks; without those that cannot be said.

    A failure to compare is no failure of the run: then nothing is said.
    """
    said = {}
    with contextlib.suppress(CrawlError, OSError):
        for name, of in rows.counts(db, run).items():
            if text := _of_data_def(db, run, name, of.rows):
                said[name] = text
    return said


def _of_data_def(db: Database, run: int, name: str, count: int) -> str | None:
    earlier = find_earlier_run(db, run, name)
    if earlier is None:
        return None
    old = runs.get(db, earlier)
    had = rows.counts(db, earlier)[name].rows
    before = f"run {old.id} had {plural(had, 'row')}" if had != count else None
    if count + had > _MAX_ROWS or not has_all_rows(db, run, earlier, name):
        return before
    now = versions.read(db, runs.get(db, run).defs_version or 0).data_def(name)
    then = versions.read(db, old.defs_version or 0).data_def(name) or now
    if now is None or then is None or any(key not in then.columns for key in now.key):
        return before
    compared = ComparedDef(name=name, key=now.key, old_columns=then.columns, new_columns=now.columns)
    with (
        tempfile.TemporaryDirectory(prefix="crawl-console-") as folder,
        contextlib.closing(RowEntries(Path(folder) / "rows.db")) as entries,
    ):
        compare_rows(db, entries, compared, old=earlier, new=run)
        missing = entries.count_missing()
    return f"{plural(missing, 'row')} of run {old.id} vanished" if missing else before
