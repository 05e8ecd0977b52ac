"""Screen 8, Runs: the runs of the data dir side by side, each compared with the one before."""

import time

from msgspec import Struct
from textual.app import ComposeResult

from console.format import format_clock, format_count, plural
from console.tui.screens.base import View
from console.tui.state.source import DataSource, PollResult
from console.tui.widgets.columns import Column
from console.tui.widgets.line_canvas import Canvas, Line, Span
from console.tui.widgets.line_table import LineTable, Row
from engine.store.read.history import RunReport

_MAX_WARNINGS = 4
_FALLEN_SHARE = 0.9
"""A dataDef is marked if its rows fall below this share of the run before."""
_STATE_ROLES = {"DONE": "good", "RUNNING": "good", "FAILED": "bad", "KILLED": "bad", "CANCELLED": "warn"}


class RunsTable(LineTable):
    """One row a run, the newest first."""

    COLUMNS = (
        Column("RUN", 7), Column("STARTED", 11), Column("STATE", 9), Column("TIME", 8, right=True),
        Column("DONE", 7, right=True), Column("FAILED", 6, right=True), Column("ROWS", 7, right=True),
        Column("WARN", 4, right=True), Column("EMPTIED", 7, right=True), Column("FIELDS", 0, min_pane_width=100),
        Column("DEFS", 5, right=True, min_pane_width=100),
    )  # fmt: skip
    EMPTY = "no run yet"


class RunComparison(Struct, frozen=True):
    """A run, and the one before it."""

    run: RunReport
    before: RunReport | None


class RunLines(Canvas):
    """The run under the cursor: rows of each dataDef, compared with the run before, and its warnings."""

    comparison: RunComparison | None = None

    @property
    def line_count(self) -> int:
        return len(self._lines()) + 1

    def paint(self, width: int, height: int) -> list[Line]:
        return [Line((("─" * width, "dim"),)), *self._lines()][:height]

    def _lines(self) -> list[Line]:
        if self.comparison is None:
            return []
        run, before = self.comparison.run, self.comparison.before
        lines = [
            Line(_rows_spans(name, count, before.rows_by_data_def.get(name) if before is not None else None))
            for name, count in run.rows_by_data_def.items()
        ]
        lines += [Line(((f"   ! {text}", "warn"),)) for text in run.warnings[:_MAX_WARNINGS]]
        more = len(run.warnings) - _MAX_WARNINGS
        return [*lines, Line(((f"   … {plural(more, 'more warning')}", "dim"),))] if more > 0 else lines


class RunsView(View):
    """A table, and details of the chosen run."""

    NAME = "runs"
    SNAPSHOT_LIMIT = 0
    READ_INTERVAL = 2.0
    HINTS = (("↵", "summary"), ("s", "sort"), ("/", "filter"), ("^s", "export"))
    DEFAULT_CSS = "RunsView { layout: vertical; } RunsView RunsTable { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._reports: list[RunReport] = []

    def compose(self) -> ComposeResult:
        self.table, self.details = RunsTable(), RunLines()
        self.details.styles.height = 2
        yield from (self.table, self.details)

    def breadcrumb(self) -> str:
        return plural(len(self._reports), "run")

    def read(self, source: DataSource, run: int) -> list[RunReport]:  # noqa: ARG002
        return source.run_reports()

    def show(self, poll: PollResult) -> None:
        reports = self.take_data(poll)
        if reports is not None:
            self._reports = reports
            live = poll.snapshot.run.id if poll.supervisor_pid and poll.snapshot.run is not None else ""
            self.table.show_filtered([_run_row(report, is_live=report.past.id == live) for report in self._reports])
            self.console_app.navigation.refresh_breadcrumbs()
            self._update_details()

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        event.stop()
        self._update_details()

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Show the summary of the newest run; of others, how to read it."""
        event.stop()
        report: RunReport = event.row.subject
        if event.row.sort_values[2] == "RUNNING":
            self.console_app.navigation.switch_to("nodes")
        elif self._reports and report is self._reports[0]:
            self.console_app.navigation.show_summary()
        else:
            self.console_app.show_toast(f"`crawl-console runs show {report.past.id}` and `--run` read an earlier run")

    def _update_details(self) -> None:
        report = self.table.row.subject if self.table.row is not None else None
        if report is None:
            return
        place = next((number for number, other in enumerate(self._reports) if other.past.id == report.past.id), 0)
        before = self._reports[place + 1] if place + 1 < len(self._reports) else None
        self.details.comparison = RunComparison(report, before)
        self.details.styles.height = min(self.details.line_count, max(2, self.size.height // 2))
        self.details.redraw()


def _run_row(report: RunReport, *, is_live: bool) -> Row:
    past, warnings = report.past, len(report.warnings)
    state = "RUNNING" if is_live else past.state
    emptied = ", ".join(report.emptied_fields)
    emptied_role = "warn" if emptied else "dim"
    return Row(
        past.id,
        (
            (past.id, "strong"), (time.strftime("%m-%d %H:%M", time.localtime(past.created_at)), "dim"),
            (state, _STATE_ROLES.get(state, "accent")), (format_clock(past.seconds), "text"),
            (format_count(past.done), "text"), (format_count(past.failed), "bad" if past.failed else "dim"),
            (format_count(past.rows), "strong"), (str(warnings), "warn" if warnings else "dim"),
            (str(len(report.emptied_fields)), emptied_role), (emptied or "-", emptied_role),
            (f"v{past.defs_version or '-'}", "dim"),
        ),
        (
            past.id, past.created_at, state, past.seconds, past.done, past.failed, past.rows, warnings,
            len(report.emptied_fields), emptied, past.defs_version,
        ),
        report,
    )  # fmt: skip


def _rows_spans(name: str, count: int, before: int | None) -> list[Span]:
    spans: list[Span] = [(f"   {name:<20}", "text"), (f"{count:>10,} rows", "strong")]
    if before is None:
        return [*spans, ("   not in the run before", "dim")]
    if not before:
        return [*spans, (f"   {before:,} before", "dim")]
    change = (count - before) / before
    role = "warn" if count < before * _FALLEN_SHARE else "dim"
    return [*spans, (f"   {before:,} before ({change:+.1%})", role)]
