"""Screen 8, Runs: the runs of the data dir, and two of them compared: rows, fields, failures, latency."""

from textual.app import ComposeResult

from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.format import plural
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.text_view import TextView
from crawl_console.words.run_table import RUN_COLUMNS, compare_runs, end_lines, run_row
from crawl_engine.store.read.history import RunReport


class RunsTable(LineTable):
    """One row a run, the newest first."""

    COLUMNS = RUN_COLUMNS
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
        self._live = ""
        """The id of the run that a supervisor works; empty: none does."""

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
            self._live = poll.snapshot.run.id if poll.is_live and poll.snapshot.run is not None else ""
            self.table.show_filtered([run_row(report, is_live=report.past.id == self._live) for report in reports])
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
        if report.past.id == self._live:
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
        self.details.show([*compare_runs(run, before), *end_lines(run)])
