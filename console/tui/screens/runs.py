"""Screen 8, Runs: the runs of the data dir, and two of them compared: rows, fields, failures, latency."""

import time
from collections.abc import Iterator, Mapping

from textual.app import ComposeResult

from console.crawl.source import DataSource, PollResult
from console.format import format_clock, format_count, format_latency, plural
from console.tui.screens.base import View
from console.tui.widgets.columns import Column
from console.tui.widgets.line_canvas import Span
from console.tui.widgets.line_table import LineTable, Row
from console.tui.widgets.text_view import TextView
from engine.store.read.history import RunReport

_FALLEN_SHARE = 0.9
"""A number is marked if it falls below this share of the other run's."""
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


class RunsView(View):
    """A table, and the comparison of two runs: the marked ones, else the chosen one and the one before it."""

    NAME = "runs"
    SNAPSHOT_LIMIT = 0
    READ_INTERVAL = 2.0
    HINTS = (("open", "summary"), ("mark", "compare"), ("sort", "sort"), ("filter", "filter"), ("export", "export"))
    DEFAULT_CSS = "RunsView { layout: vertical; } RunsView TextView { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._reports: list[RunReport] = []

    def compose(self) -> ComposeResult:
        self.table, self.details = RunsTable(), TextView("")
        self.table.always_show_cursor = True
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
        self.table.styles.height = min(self.table.full_height, max(3, self.size.height // 2))
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
        chosen = [report for report in self._reports if report.past.id in self.table.marks]
        if len(chosen) < 2 and self.table.row is not None:
            row: RunReport = self.table.row.subject
            place = next((number for number, one in enumerate(self._reports) if one.past.id == row.past.id), 0)
            if not chosen or chosen[0] is row:
                chosen = self._reports[place : place + 2]
            else:
                chosen = [report for report in self._reports if report in (row, chosen[0])]
        if not chosen:
            return
        run, before = chosen[0], chosen[1] if len(chosen) > 1 else None
        other = f" compared with {before.past.id}" if before is not None else ", the first run here"
        self.details.heading = f"run {run.past.id}{other}"
        self.details.show(list(_describe(run, before)))


def _describe(run: RunReport, before: RunReport | None) -> Iterator[Span]:
    """What a run gave, with what another gave beside it."""
    if before is not None:
        yield f"{'':<28}{run.past.id:>12}{before.past.id:>12}", "dim"
    earlier = before.rows_by_data_def if before is not None else None
    yield from _compare("rows ", run.rows_by_data_def, earlier, _FALLEN_SHARE)
    shares = _compare(
        "filled ", run.filled, before.filled if before is not None else None, _FALLEN_SHARE, as_share=True
    )
    yield from sorted(shares, key=lambda span: span[1] != "warn")
    failures = [{reason: float(count) for reason, count in one.failures} for one in (run, before) if one is not None]
    yield from _compare("failed ", failures[0], failures[1] if before is not None else None, None)
    p95 = [format_latency(one.p95) for one in (run, before) if one is not None]
    yield f"{'latency p95':<28}" + "".join(f"{text:>12}" for text in p95), "text"
    for text in run.warnings:
        yield f"! {text}", "warn"


def _compare(
    label: str,
    values: Mapping[str, float],
    others: Mapping[str, float] | None,
    fallen: float | None,
    *,
    as_share: bool = False,
) -> Iterator[Span]:
    """A line a name. It is marked if its value is below `fallen` of the other's, or with None if it is higher."""
    for name in dict.fromkeys([*values, *(others or ())]):
        now = values.get(name)
        text = f"{label + name:<28} {_format(now, as_share=as_share):>11}"
        if others is None:
            yield text, "text"
            continue
        then = others.get(name)
        text += f"{_format(then, as_share=as_share):>12}"
        change = (now or 0.0) - (then or 0.0)
        if then and change:
            text += f"  {change * 100:+.1f} points" if as_share else f"  {change / then:+.1%}"
        worse = (now or 0.0) > (then or 0.0) if fallen is None else (now or 0.0) < (then or 0.0) * fallen
        yield text, "warn" if worse else "text"


def _format(value: float | None, *, as_share: bool) -> str:
    return "-" if value is None else f"{value:.1%}" if as_share else f"{value:,.0f}"


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
