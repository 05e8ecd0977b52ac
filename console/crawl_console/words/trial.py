"""Shows what a trial run gave: the fields of each dataDef, how they were filled, and first rows."""

import shutil
from collections.abc import Iterator

from crawl_console.sanitize import clean
from crawl_engine.append.formats.row_json import split_fields
from crawl_engine.errors import plural
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.health import DataDefHealth

MAX_PAGES = 100
"""The limit of pages up to which a run is a trial."""
_FIRST_ROWS = 3
_EXAMPLE_ROWS = 50
"""Rows among which the example of a field is looked for."""
_BLANK = ("null", '""', "[]")
_MIN_WIDTH = 60


def trial_lines(db: Database, view: Snapshot) -> Iterator[str]:
    """Lines for a terminal, none of which is wider than it."""
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns - 1)
    assert view.run is not None
    for name, count in view.rows.items():
        found = [row for _, row in rows.list_by_data_def(db, view.run.seq, name, 0, _EXAMPLE_ROWS)]
        if not found:
            continue
        yield f"  {name}: {plural(count, 'row')}"
        for line in _describe_fields(found, view.data_defs.get(name)):
            yield _cut(line, width)
        for row in found[:_FIRST_ROWS]:
            yield _cut(f"    {clean(row)}", width)


def _describe_fields(found: list[str], health: DataDefHealth | None) -> Iterator[str]:
    """The fields of a dataDef, in their order."""
    examples: dict[str, str] = {}
    for row in found:
        for field, text in split_fields(row).items():
            if examples.get(field, "null") in _BLANK:
                examples[field] = text
    missing = {} if health is None else health.missing
    records = 0 if health is None else health.records
    filled = {field: f"{records - missing[field]:,} of {records:,}" if field in missing else "" for field in examples}
    wide, counted = max(map(len, examples), default=0), max(map(len, filled.values()), default=0)
    yield f"    {'field':<{wide}}  {'filled':<{counted}}  example"
    for field, text in examples.items():
        shown = "–" if text in _BLANK else clean(text.strip('"') if text.startswith('"') else text)
        yield f"    {field:<{wide}}  {filled[field]:<{counted}}  {shown}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"
