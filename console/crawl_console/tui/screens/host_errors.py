"""The last errors of one host: why its pages failed, and its last warnings and errors."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult

from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.format import Span, format_count, format_elapsed, plural, shorten_line
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.job_lines import LEVEL_ROLES
from crawl_console.words.log_folding import FoldedLine, FoldedLines
from crawl_console.words.table import Column, item_row
from crawl_engine.store.read.failures import HostErrors

_MAX_REASONS = 5


class _ShownLine(NamedTuple):
    """An event, which stands for all that say the same; `width`: of the pane's last column."""

    line: FoldedLine
    now: float
    width: int


def _text_span(shown: _ShownLine) -> Span:
    line, event = shown.line, shown.line.event
    repeats = f"  ×{line.count:,}" if line.count > 1 else ""
    return shorten_line(event.text, shown.width - len(repeats)) + repeats, LEVEL_ROLES[event.level]


_ERROR_COLUMNS: Sequence[Column[_ShownLine]] = (
    Column(
        "AGE", 5, lambda shown: (format_elapsed(shown.now - shown.line.event.at), "dim"),
        lambda shown: -shown.line.event.at, "of the last such event", right=True,
    ),
    Column(
        "NODE", 5, lambda shown: (shown.line.event.source, "dim"), lambda shown: shown.line.event.source,
        "that it happened on", min_pane_width=100,
    ),
    Column("WHAT", 0, _text_span, lambda shown: shown.line.event.text, "happened"),
)  # fmt: skip


class ErrorsTable(LineTable):
    """One row an event, the newest first."""

    COLUMNS = _ERROR_COLUMNS
    EMPTY = "✓ no errors among the last events"


class ReasonLines(Canvas):
    """The reasons of the host's failed pages, the most frequent first."""

    errors: HostErrors | None = None

    @property
    def line_count(self) -> int:
        return min(_MAX_REASONS, len(self.errors.groups)) + 1 if self.errors is not None else 1

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        if self.errors is None:
            return [Line((("   reading…", "dim"),))]
        failed = sum(group.jobs for group in self.errors.groups)
        title = f"   {plural(failed, 'failed page')}" if failed else "   no page has failed for good"
        lines = [Line(((title, "bad" if failed else "good"),))]
        lines += [
            Line(((f"   {format_count(group.jobs):>7}  ", "strong"), (group.reason or "no reason", "text")))
            for group in self.errors.groups
        ]
        return lines[:height]


class HostErrorsView(View):
    """Reasons above, events below; `enter` opens the job of an event."""

    NAME = "hosts"
    SNAPSHOT_LIMIT = 0
    READ_INTERVAL = 2.0
    HINTS = (("open", "job"), ("filter", "filter"), ("copy", "copy"), ("back", "back"))
    DEFAULT_CSS = "HostErrorsView { layout: vertical; } HostErrorsView ErrorsTable { height: 1fr; }"

    def __init__(self, host: str) -> None:
        """`host`: `name:port`."""
        super().__init__()
        self.host = host

    def compose(self) -> ComposeResult:
        self.reasons, self.table = ReasonLines(), ErrorsTable()
        self.reasons.styles.height = 1
        yield from (self.reasons, self.table)

    def breadcrumb(self) -> str:
        return f"{self.host} errors"

    def read(self, source: DataSource, run: int) -> HostErrors:
        return source.host_errors(run, self.host)

    def show(self, poll: PollResult) -> None:
        errors = self.take_data(poll)
        if errors is not None:
            self.reasons.errors = errors
            self.reasons.styles.height = self.reasons.line_count
            self.reasons.redraw()
            now, width = time.time(), self.size.width - 10
            folded = FoldedLines()
            folded.extend(reversed(errors.events), fold=True)
            folded.sort()
            shown = [_ShownLine(line, now, width) for line in reversed(folded.lines)]
            self.table.show_filtered([item_row(_ERROR_COLUMNS, one.line.id, one, one.line.event) for one in shown])

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        self.console_app.navigation.push_event_job(event.row.subject)
