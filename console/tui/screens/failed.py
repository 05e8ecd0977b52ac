"""Screen 4, Failed: why pages failed, by reason and host; retries a group, or lists its jobs."""

from collections.abc import Sequence

from textual.actions import SkipAction
from textual.app import ComposeResult

from console.filter_syntax import parse
from console.format import format_count, plural
from console.tui.screens.base import View
from console.tui.state.filters import failure_filter
from console.tui.state.source import DataSource, PollResult
from console.tui.widgets.columns import Column
from console.tui.widgets.line_table import LineTable, Row
from engine.store.db.filter import JobFilter
from engine.store.read.failures import FailureGroup


class FailureTable(LineTable):
    """One row a reason and host."""

    COLUMNS: Sequence[Column] = (
        Column("PAGES", 7, right=True), Column("REASON", 0), Column("HOST", 26, wide_width=40, keeps_end=True),
        Column("GROUPS", 24, min_pane_width=110),
    )  # fmt: skip
    EMPTY = "✓ nothing failed"

    def action_filter(self) -> None:
        """Leave filtering to the view."""
        raise SkipAction


class FailedView(View):
    """The groups, the largest first."""

    NAME = "failed"
    SNAPSHOT_LIMIT = 0
    HINTS = (
        ("↵", "list its jobs"), ("r", "retry the group"), ("space", "mark"), ("*", "all"), ("/", "filter"),
    )  # fmt: skip

    def compose(self) -> ComposeResult:
        self.table = FailureTable()
        yield self.table

    def read(self, source: DataSource, run: int) -> list[FailureGroup]:
        return source.failure_groups(run)

    def show(self, poll: PollResult) -> None:
        groups = self.take_data(poll)
        if groups is not None:
            delayed = poll.snapshot.delayed
            refused = [alarm.text for alarm in poll.snapshot.alarms if alarm.code == "host-refused"]
            text = f"✓ nothing failed for good; {plural(delayed, 'page')} will be tried again" if delayed else ""
            self.table.empty_text = f"! nothing failed for good yet, but {'; '.join(refused)}" if refused else text
            self.table.show([_group_row(group) for group in groups])

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        self.console_app.navigation.push_failed(_filter_of(event.row.subject))

    def action_filter(self) -> None:
        self.console_app.prompt.ask(
            'failed jobs: regex  !x  host:x  group:g  reason:"…"  age>5m  attempts>2', "", self._list_matching
        )

    def _list_matching(self, text: str) -> None:
        if text.strip():
            self.console_app.navigation.push_failed(parse(f"state:failed {text}"))

    def action_retry(self) -> None:
        """Retry the group under the cursor, or the marked ones."""
        rows = self.table.selected_rows()
        if not rows:
            self.console_app.show_toast("retry: nothing failed", "warning")
            return
        groups = [row.subject for row in rows]
        reasons = [f"{group.jobs:,}  {group.reason or 'no reason'}  {group.host}" for group in groups]
        self.console_app.actions.retry_groups([(_filter_of(group), group.jobs) for group in groups], reasons)
        self.table.marks.clear()


def _filter_of(group: FailureGroup) -> JobFilter:
    return failure_filter(group.host, group.reason)


def _group_row(group: FailureGroup) -> Row:
    return Row(
        (group.host, group.reason),
        (
            (format_count(group.jobs), "strong"), (group.reason or "no reason", "bad"), (group.host, "text"),
            (", ".join(group.groups), "dim"),
        ),
        (group.jobs, group.reason, group.host, ", ".join(group.groups)),
        group,
    )  # fmt: skip
