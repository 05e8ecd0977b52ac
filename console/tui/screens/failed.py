"""Screen 4, Failed: why pages failed, by reason and host; retries a group, or lists its jobs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.actions import SkipAction
from textual.app import ComposeResult

from console.filter_syntax import parse
from console.format import format_count, plural
from console.tui.screens.base import View
from console.tui.screens.job import page_lines
from console.tui.state.filters import failure_filter
from console.tui.state.source import DataSource, PollResult
from console.tui.widgets.columns import Column
from console.tui.widgets.line_canvas import Span
from console.tui.widgets.line_table import LineTable, Row, RowKey
from console.tui.widgets.text_view import TextView
from engine.store.db.filter import JobFilter
from engine.store.read.failures import FailureGroup
from engine.urls import without_credentials

_PAGE_MIN_HEIGHT = 24
"""Lines of the screen from which the first page of the chosen group is shown."""


class FailedData(NamedTuple):
    """What a poll reads: the groups, and the lines of the first page of one of them, with its key."""

    groups: list[FailureGroup]
    page: tuple[RowKey, list[Span]] | None


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
        ("open", "list its jobs"), ("retry", "retry the group"), ("mark", "mark"), ("mark_all", "all"),
        ("filter", "filter"),
    )  # fmt: skip

    DEFAULT_CSS = "FailedView { layout: vertical; } FailedView FailureTable, FailedView TextView { height: 1fr; }"

    def compose(self) -> ComposeResult:
        self.table, self.page = FailureTable(), TextView("first page")
        self.table.always_show_cursor = True
        self.page.wrap = self.page.display = False
        self._read_page: tuple[RowKey, list[Span]] | None = None
        yield from (self.table, self.page)

    def read(self, source: DataSource, run: int) -> FailedData:
        row = self.table.row
        if row is None or self.size.height < _PAGE_MIN_HEIGHT:
            return FailedData(source.failure_groups(run), None)
        page = self._read_page
        if page is None or page[0] != row.key:
            page = (row.key, list(_read_first_page(source, run, row.subject)))
        return FailedData(source.failure_groups(run), page)

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        event.stop()
        self.console_app.navigation.refresh_query()

    def show(self, poll: PollResult) -> None:
        data = self.take_data(poll)
        if data is not None:
            groups, self._read_page = data
            if self._read_page is not None:
                self.page.show(self._read_page[1])
            self.page.display = self._read_page is not None
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


def _read_first_page(source: DataSource, run: int, group: FailureGroup) -> Iterator[Span]:
    """The first failed page of a group: its URL, and what its host answered."""
    lines = source.jobs(run, _filter_of(group), None, 1, backwards=True).lines
    detail = source.job(lines[0].id) if lines else None
    if detail is None:
        yield "this page has been retried or removed", "dim"
        return
    yield f"job {detail.line.id}  {without_credentials(detail.line.url)}", "strong"
    body = source.document_body(detail.page.id) if detail.page is not None else None
    yield from page_lines(detail.page, body)


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
