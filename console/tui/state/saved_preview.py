"""The preview of saved defs that wait to be published: their plan, and pages whose rows differ."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from console.client import open_latest_run
from console.format import plural
from console.reports.plan import plan_lines
from console.sanitize import clean
from console.tui.state.live_preview import change_lines
from console.tui.widgets.line_canvas import Span
from engine.defs.loader import load
from engine.errors import CrawlError
from engine.preview.extraction_client import ExtractionClient
from engine.preview.plan import Plan, plan_defs
from engine.settings import Settings
from engine.store.db.connector import DatabaseBusy

_MAX_CHANGES = 5
"""Changed rows that are shown of a page."""


class SavedPreview(Struct, frozen=True):
    """The preview of the defs on disk, as they were when it was made."""

    hash: str
    """Of these defs; empty where they could not be compared."""
    lines: Sequence[Span]
    was_busy: bool = False
    """Whether the database did not answer: it may next time."""


def preview_saved_defs(data: Path, defs: Path, settings: Settings) -> SavedPreview:
    """Compare stored pages with the defs on disk. May take seconds: for a worker thread."""
    try:
        with open_latest_run(data) as (db, run), ExtractionClient(settings) as client:
            loaded = load(defs, settings.default_steps, keep_documents=settings.documents)
            plan = plan_defs(db, data, run, loaded.definitions, client)
    except CrawlError as error:
        lines = [(line, "bad") for line in str(error).splitlines()]
        return SavedPreview("", lines, was_busy=isinstance(error, DatabaseBusy))
    except Exception as error:  # a comparison that fails must not end the console
        return SavedPreview("", [(f"{type(error).__name__}: {error}", "bad")])
    return SavedPreview(plan.hash, [*plan_lines(plan), *_example_lines(plan)])


def _example_lines(plan: Plan) -> list[Span]:
    lines: list[Span] = []
    for page in plan.examples:
        lines.append((f"{clean(page.url)}  {page.data_def}", "accent"))
        columns = list(dict.fromkeys(name for change in page.changes for name in change.after or change.before or ()))
        for change in page.changes[:_MAX_CHANGES]:
            lines += change_lines(change, columns)
        if len(page.changes) > _MAX_CHANGES:
            lines.append((f"  and {plural(len(page.changes) - _MAX_CHANGES, 'more row')}", "dim"))
    return lines
