"""Screen 4, Failed: why pages failed, by reason and host; retries a group, or lists its jobs."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.actions import SkipAction
from textual.app import ComposeResult

from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.filter_syntax import parse
from crawl_console.format import Span, braille_plot, format_date_time, format_time, plural
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.chart import time_axis
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.text_view import TextView
from crawl_console.words.failure_table import FAILURE_COLUMNS, describe_no_failure, failure_key, failure_row
from crawl_console.words.filters import failure_filter
from crawl_console.words.job_lines import page_lines
from crawl_console.words.job_table import redacted_url
from crawl_console.words.table import RowKey
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.read.failures import FailureGroup

_DETAIL_MIN_HEIGHT = 12
"""Lines of the screen from which the chosen group is described."""
_READ_SECONDS = 2.0
_SAMPLES, _STRIP_CELLS, _STRIP_LINES = 5, 60, 2
_MIN_PLOTTED = 5
"""Fewer pages say nothing by their times."""
_DAY = 86_400.0


class GroupDetail(NamedTuple):
    """The lines about a group, and when they were read, in seconds of `time.monotonic`."""

    key: RowKey
    jobs: int
    at: float
    lines: Sequence[Span]


class FailedData(NamedTuple):
    """What a poll reads."""

    groups: list[FailureGroup]
    detail: GroupDetail | None


class FailureTable(LineTable):
    """One row a reason and host."""

    COLUMNS = FAILURE_COLUMNS
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
        self.table, self.detail = FailureTable(), TextView("the chosen group")
        self.table.always_show_cursor = True
        self.detail.display = False
        self._read_detail: GroupDetail | None = None
        yield from (self.table, self.detail)

    def read(self, source: DataSource, run: int) -> FailedData:
        row, now, detail = self.table.row, time.monotonic(), self._read_detail
        groups = source.failure_groups(run)
        if row is None or self.size.height < _DETAIL_MIN_HEIGHT:
            return FailedData(groups, None)
        group: FailureGroup = next((one for one in groups if failure_key(one) == row.key), row.subject)
        is_old = detail is None or (detail.jobs != group.jobs and now - detail.at > _READ_SECONDS)
        if detail is None or detail.key != row.key or is_old:
            detail = GroupDetail(row.key, group.jobs, now, list(_describe_group(source, run, group)))
        return FailedData(groups, detail)

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        event.stop()
        self.console_app.navigation.refresh_query()

    def show(self, poll: PollResult) -> None:
        data = self.take_data(poll)
        if data is not None:
            groups, self._read_detail = data
            detail = self._read_detail
            self.table.empty_text = describe_no_failure(poll.snapshot)
            self.table.show([failure_row(group) for group in groups])
            if detail is not None:
                self.detail.show(detail.lines)
                self.table.styles.height = min(len(groups) + 1, max(3, self.size.height // 2))
            self.detail.display = detail is not None
            if detail is None:
                self.table.styles.height = "1fr"

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


def _describe_group(source: DataSource, run: int, group: FailureGroup) -> Iterator[Span]:
    """When the pages of a group failed, some of their URLs, and what the host answered for the first of them."""
    newest = source.jobs(run, _filter_of(group), None, _SAMPLES, backwards=False).lines
    oldest = source.jobs(run, _filter_of(group), None, 1, backwards=True).lines
    detail = source.job(oldest[0].id) if oldest else None
    if detail is None or not newest:
        yield "these pages have been retried or removed", "dim"
        return
    yield f"{plural(group.jobs, 'page')} of {group.host}: {group.reason or 'no reason'}", "bad"
    first, last = oldest[0].changed_at, newest[0].changed_at
    yield f"first {_describe_time(first)}   last {_describe_time(last)}", "text"
    if group.jobs >= _MIN_PLOTTED and first is not None and last is not None and last > first:
        counts = _count_by_time(source.failure_times(run, group), first, last)
        yield from ((line, "warn") for line in braille_plot(counts, _STRIP_CELLS, _STRIP_LINES))
        yield time_axis(_STRIP_CELLS, last, last - first), "dim"
    yield "", ""
    yield "the last ones", "dim"
    for line in newest:
        yield f"  {line.id:>7}  {_describe_time(line.changed_at)}  {redacted_url(line)}", "text"
    yield "", ""
    yield f"the first one, job {detail.line.id}", "dim"
    body = source.document_body(detail.page.id) if detail.page is not None else None
    yield from page_lines(detail.page, body)


def _describe_time(at: float | None) -> str:
    if at is None:
        return "-"
    return format_time(at) if time.time() - at < _DAY else format_date_time(at)


def _count_by_time(times: Sequence[float], first: float, last: float) -> list[float]:
    """How many pages failed in each of the equal parts of the time from the first to the last."""
    counts = [0.0] * (_STRIP_CELLS * 2)
    for at in times:
        counts[max(0, min(len(counts) - 1, int((at - first) / (last - first) * len(counts))))] += 1
    return counts


def _filter_of(group: FailureGroup) -> JobFilter:
    return failure_filter(group.host, group.reason)
