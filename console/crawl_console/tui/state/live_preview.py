"""Extracts the newest stored pages of a dataDef again at each save. No network, no writes.

Each result is compared with the result before the save: a run that watches its defs has replaced the stored rows.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from crawl_console.client import open_latest_run, read_arguments
from crawl_console.format import Span, plan_lines, plural
from crawl_console.sanitize import clean
from crawl_engine.defs.loader import load
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.sources import list_paths
from crawl_engine.errors import CrawlError
from crawl_engine.model.definition import Definitions
from crawl_engine.preview.extraction_client import ExtractionClient
from crawl_engine.preview.plan import PlannedChanges, plan_defs
from crawl_engine.preview.row_changes import RowChange
from crawl_engine.preview.stored_pages import PagePreview, Preview, preview_stored_pages
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.run import runs

_MAX_UNCHANGED_ROWS = 5
"""How many unchanged rows a page shows if nothing changed anywhere."""
_EMPTY = "(empty)"
_MARKS = {"added": ("+", "good"), "changed": ("~", "warn"), "vanished": ("−", "bad"), "same": (" ", "dim")}


_MAX_CHANGES = 5
"""Changed rows that are shown of a page."""


class LivePreview:
    """Previews one dataDef. `evaluate` may take some hundred milliseconds: for a worker thread, one at a time."""

    def __init__(self, data: Path, defs: Path, data_def: str, settings: Settings, field: str | None = None) -> None:
        """`field`: the one whose selector and empty pages stand first."""
        self._data = data
        self._defs = defs
        self._data_def = data_def
        self._settings = settings
        self._field = field
        self._previous_rows: dict[int, Sequence[str]] | None = None

    def evaluate(self) -> list[Span]:
        """The lines to show: rows the defs on disk extract, or the problems of the defs."""
        try:
            definitions = load(
                self._defs, self._settings.default_steps, arguments=read_arguments(self._data)
            ).definitions
            with ExtractionClient(self._settings) as client:
                preview = preview_stored_pages(
                    self._data, definitions, self._data_def, before=self._previous_rows, client=client
                )
        except CrawlError as error:
            return [(line, "bad") for line in str(error).splitlines()]
        if not preview.pages:
            return [(f"no stored page of {self._data_def} yet", "warn")]
        lines = [*_field_lines(definitions, preview, self._field)] if self._field is not None else []
        lines += _preview_lines(preview)
        self._previous_rows = {page.job: page.rows for page in preview.pages if not page.problem}
        return lines


def list_def_files(defs: Path) -> list[tuple[Path, os.stat_result]]:
    """The def files by path; a file that vanishes meanwhile is left out."""
    paths = [defs] if defs.is_file() else list_paths(defs, Problems())
    files = []
    for path in paths:
        with contextlib.suppress(OSError):
            files.append((path, path.stat()))
    return files


def defs_stamp(defs: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes when a def file is saved; cheap enough to check ten times a second."""
    return tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in list_def_files(defs))


def _field_lines(definitions: Definitions, preview: Preview, name: str) -> Iterator[Span]:
    """A field's selector and its place in the defs, beside the pages on which it is empty."""
    data_def = definitions.data_def(preview.data_def)
    field = next((each for each in data_def.fields if each.name == name), None) if data_def is not None else None
    if field is None:
        return
    place = f"  {field.place.file}:{field.place.line}" if field.place.file else ""
    shown = ", else ".join([field.selector or "", *field.fallbacks])
    yield f"{preview.data_def}.{name}: {shown or 'the block itself'}{place}", "strong"
    for page in preview.pages:
        rows = [change.after for change in page.changes if change.after is not None]
        if empty := sum(not row.get(name) for row in rows):
            yield f"  empty in {empty} of {plural(len(rows), 'row')}  {clean(page.url)}", "bad"
    yield "", ""


def _preview_lines(preview: Preview) -> Iterator[Span]:
    counts = preview.counts
    changed = ", ".join(f"{_MARKS[kind][0]}{counts[kind]} {kind}" for kind in ("added", "changed", "vanished"))
    duration = f"{preview.seconds * 1000:.0f} ms"
    yield f"{plural(len(preview.pages), 'page')}: {changed}, {counts['same']} same; {duration}", "strong"
    for name, count in preview.emptied.items():
        yield f"✗ {name}: now empty in {plural(count, 'row')} that had a value", "bad"
    rejected = [rejection for page in preview.pages for rejection in page.rejected]
    for place, count in Counter(f"{r.field}: {r.reason}  {r.place}" for r in rejected).items():
        yield f"✗ {place}" + (f"  ({count} records)" if count > 1 else ""), "bad"
    quiet = not any(change.kind != "same" for page in preview.pages for change in page.changes)
    for page in preview.pages:
        yield from _page_lines(page, preview.columns, plain=quiet)


def _page_lines(page: PagePreview, columns: Sequence[str], *, plain: bool) -> Iterator[Span]:
    shown = [change for change in page.changes if change.kind != "same"]
    if not shown and not page.problem and not plain:
        return
    yield f"{clean(page.url)}  {plural(len(page.rows), 'row')}, {plural(page.links, 'link')}", "accent"
    if page.problem:
        yield f"  ✗ {page.problem}", "bad"
    for change in shown or page.changes[:_MAX_UNCHANGED_ROWS]:
        yield from change_lines(change, columns)


def change_lines(change: RowChange, columns: Sequence[str]) -> Iterator[Span]:
    """A row's change: a line for each field of a changed row, else one line."""
    mark, style = _MARKS[change.kind]
    before, after = change.before or {}, change.after or {}
    if change.kind == "changed":
        for name in change.fields:
            emptied = name in change.emptied
            yield (
                f"  {mark} {name}: {before.get(name) or _EMPTY} → {after.get(name) or _EMPTY}",
                "bad" if emptied else style,
            )
        return
    row = after if change.after is not None else before
    values = "  ".join(f"{name}={row[name]}" for name in columns if row.get(name))
    yield f"  {mark} {values or _EMPTY}", style


class SavedPreview(Struct, frozen=True):
    """The preview of the defs on disk, as they were when it was made."""

    hash: str
    """Of these defs; empty if the comparison failed."""
    lines: Sequence[Span]
    was_busy: bool = False
    """Whether the database did not answer: it may next time."""


def preview_saved_defs(data: Path, defs: Path, settings: Settings) -> SavedPreview:
    """Compare stored pages with the defs on disk. May take seconds: for a worker thread."""
    try:
        with open_latest_run(data) as (db, run), ExtractionClient(settings) as client:
            loaded = load(
                defs, settings.default_steps, keep_documents=settings.documents,
                arguments=runs.get_arguments(db, run.seq),
            )  # fmt: skip
            plan = plan_defs(db, data, run, loaded.definitions, client)
    except CrawlError as error:
        lines = [(line, "bad") for line in str(error).splitlines()]
        return SavedPreview("", lines, was_busy=isinstance(error, DatabaseBusy))
    except Exception as error:  # a comparison that fails must not end the console
        return SavedPreview("", [(f"{type(error).__name__}: {error}", "bad")])
    return SavedPreview(plan.hash, [*plan_lines(plan), *_example_lines(plan)])


def _example_lines(plan: PlannedChanges) -> list[Span]:
    lines: list[Span] = []
    for page in plan.examples:
        lines.append((f"{clean(page.url)}  {page.data_def}", "accent"))
        columns = list(dict.fromkeys(name for change in page.changes for name in change.after or change.before or ()))
        for change in page.changes[:_MAX_CHANGES]:
            lines += change_lines(change, columns)
        if len(page.changes) > _MAX_CHANGES:
            lines.append((f"  and {plural(len(page.changes) - _MAX_CHANGES, 'more row')}", "dim"))
    return lines
