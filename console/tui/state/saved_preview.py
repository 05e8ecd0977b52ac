"""The preview of saved defs that wait to be published: their plan, and pages whose rows differ."""

from pathlib import Path

from console.client import open_latest_run
from console.format import plural
from console.plan_text import plan_lines
from console.sanitize import clean
from console.tui.state.live_preview import change_lines
from console.tui.widgets.line_canvas import Span
from engine.defs.loader import load
from engine.errors import CrawlError
from engine.preview.extraction_client import ExtractionClient
from engine.preview.plan import Plan, plan_defs
from engine.settings import Settings

_MAX_CHANGES = 5
"""Changed rows that are shown of a page."""


def preview_saved_defs(data: Path, defs: Path) -> list[Span]:
    """The lines to show. May take seconds: for a worker thread."""
    try:
        with open_latest_run(data) as (db, run), ExtractionClient(Settings()) as client:
            plan = plan_defs(db, data, run, load(defs).definitions, client)
    except CrawlError as error:
        return [(line, "bad") for line in str(error).splitlines()]
    return [*plan_lines(plan), *_example_lines(plan)]


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
