"""Screen 2, Jobs, and the list of failed jobs behind screen 4; retries marked ones or all."""

import time
from collections.abc import Sequence

from textual.actions import SkipAction
from textual.app import ComposeResult

from crawl_console.crawl.source import PollResult, ViewQuery
from crawl_console.filter_syntax import parse
from crawl_console.format import Span, format_count
from crawl_console.tui.screens.base import View
from crawl_console.tui.state.job_window import JobWindow, WindowPage
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.job_table import FAILED_COLUMNS, JOB_COLUMNS, ShownJob, job_row, redacted_url
from crawl_console.words.table import Column
from crawl_engine.store.db.filter import ALL_JOBS, JobFilter
from crawl_engine.store.read.browse import JobLine
from crawl_engine.store.transactions.exclude import queued_filter


class JobTable(LineTable):
    """The window's lines, in the order of the list: a million rows cannot be sorted here."""

    COLUMNS: Sequence[Column[ShownJob]] = JOB_COLUMNS
    EMPTY = "no jobs"
    all_marked = False
    """Whether all matching jobs are marked, loaded or not."""

    def __init__(self, window: JobWindow) -> None:
        super().__init__()
        self.window = window

    def unloaded_rows(self) -> tuple[int, int]:
        """How many jobs lie before and after the window, by the run's counters if these count such jobs."""
        window, poll = self.window, self.console_app.last_poll
        before = 0 if window.has_start else max(window.dropped_lines, window.page_size)
        after = 0 if window.has_end else window.page_size
        if poll is not None and by_state_alone(window.job_filter):
            rest = self.count_jobs(poll) - len(window.lines)
            if window.has_end and not window.has_start:
                before = max(before, rest)
            elif not window.has_end:
                after = max(after, rest - before)
        return before, after

    def count_jobs(self, poll: PollResult) -> int:
        states, delayed = self.window.job_filter.matched_states, poll.snapshot.delayed
        jobs = {**poll.snapshot.jobs, "ready": poll.snapshot.jobs["ready"] - delayed, "delayed": delayed}
        return sum(count for state, count in jobs.items() if state in states)

    def action_bottom(self) -> None:
        if not self.window.has_end:
            self.window.jump_to_end()
            self.console_app.navigation.refresh_query()
        super().action_bottom()

    def action_top(self) -> None:
        if not self.window.has_start:
            self.window.reset(self.window.job_filter)
            self.console_app.navigation.refresh_query()
        super().action_top()

    def action_mark_all(self) -> None:
        self.all_marked = not self.all_marked
        self.marks = {row.key for row in self.rows} if self.all_marked else set()
        self.redraw()

    def action_mark(self) -> None:
        self.all_marked = False
        super().action_mark()

    def action_copy(self) -> None:
        if self.row is not None:
            self.console_app.desktop.copy_text(redacted_url(self.row.subject))

    def action_url(self) -> None:
        if self.row is not None:
            self.console_app.desktop.open_in_browser(redacted_url(self.row.subject))

    def action_export(self) -> None:
        """Write all matching jobs to a CSV file, loaded or not."""
        self.console_app.actions.export_jobs(self.window.job_filter)

    def action_back(self) -> None:
        """Clear the marks; without marks the view goes back."""
        if self.marks or self.all_marked:
            self.marks, self.all_marked = set(), False
            self.redraw()
        else:
            raise SkipAction

    def action_filter(self) -> None:
        """Leave filtering to the view."""
        raise SkipAction

    def action_sort(self) -> None:
        """Say that a list of millions is not sorted, and keep the letter that may follow."""
        self.await_key("jobs keep the order in which they were found, failed ones newest first; any key leaves")

    def action_reverse(self) -> None:
        self.console_app.show_toast("jobs keep the order in which they were found, failed ones newest first")


class FailedTable(JobTable):
    """Failed jobs, the reason before the URL."""

    COLUMNS = FAILED_COLUMNS
    EMPTY = "✓ nothing failed"


class JobCounts(Canvas):
    last_poll: PollResult | None = None
    note: Span = ("", "")

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        """The note before the counts: these give way where room is short."""
        spans: list[Span] = [(f"  {self.note[0]}" + " " * 3, self.note[1])] if self.note[0] else [("   ", "")]
        if self.last_poll is not None:
            for name, number in self.last_poll.snapshot.jobs.items():
                role = "dim" if not number else "bad" if name == "failed" else "text"
                spans += [(f"{name} ", "dim"), (f"{format_count(number)}  ", role)]
        return [Line(spans)]


class JobsView(View):
    """Counts and table. `base_filter`: what the filter always starts with."""

    NAME = "jobs"
    HINTS = (
        ("open", "job"), ("filter", "filter"), ("mark", "mark"), ("mark_all", "all"), ("retry", "retry"),
        ("exclude", "exclude"), ("payload", "payload"), ("url", "browser"), ("copy", "copy"),
    )  # fmt: skip
    DEFAULT_CSS = "JobsView { layout: vertical; } JobsView JobCounts { height: 1; } JobsView JobTable { height: 1fr; }"

    def __init__(self, job_filter: JobFilter = ALL_JOBS, *, name: str = "jobs") -> None:
        super().__init__()
        self.NAME = name
        self.base_filter = "state:failed" if name == "failed" else ""
        self.filter_text = job_filter.text
        self.window = JobWindow()
        self.window.reset(job_filter)

    def compose(self) -> ComposeResult:
        self.counts = JobCounts()
        self.table = FailedTable(self.window) if self.NAME == "failed" else JobTable(self.window)
        yield self.counts
        yield self.table

    def breadcrumb(self) -> str:
        title, typed = self.NAME.capitalize(), self.typed_filter
        return f"{title} /{typed}" if typed else title

    def view_query(self) -> ViewQuery | None:
        self.window.page_size = max(10, self.table.size.height) if self.is_mounted else 40
        read = self.window.next_query()
        return lambda source, snapshot: read(source, snapshot.run.seq) if snapshot.run else None

    def show(self, poll: PollResult) -> None:
        self.last_poll = poll
        if poll.requester is self and isinstance(poll.view_data, WindowPage):
            self.window.anchor = self.table.row.subject if self.table.row is not None else None
            moved = self.window.apply(poll.view_data)
            if not self.window.lost_anchor:
                self._update_table(moved)
        self.counts.last_poll = poll
        self.counts.note = self._status_note()
        self.counts.redraw()
        self.window.first_visible = self.table.first_visible
        self.console_app.navigation.refresh_query(at_once=self.window.searching)

    def _update_table(self, moved: int) -> None:
        table, now = self.table, time.time()
        table.empty_text = self._empty_text()
        rows = [job_row(line, now, table.COLUMNS) for line in self.window.lines]
        if table.all_marked:
            table.marks = {row.key for row in rows}
        table.show(rows)
        if moved and not rows:
            table.action_top()

    def _empty_text(self) -> str:
        """What an empty table says: under a filter, how many jobs there are without it."""
        typed = self.typed_filter
        if not typed or self.last_poll is None:
            return self.table.EMPTY
        jobs = self.last_poll.snapshot.jobs
        others = f"{jobs['failed']:,} failed" if self.NAME == "failed" else f"{sum(jobs.values()):,} jobs"
        return f"nothing matches /{typed} ({others})"

    def _status_note(self) -> Span:
        if self.window.searching:
            return (" searching…", "accent")
        if self.table.all_marked:
            return (" ● all matching jobs are marked", "accent")
        if self.table.marks:
            return (f" ● {len(self.table.marks)} marked", "accent")
        return (f" {self._count_matches()}", "accent") if self.typed_filter and self.last_poll is not None else ("", "")

    def _count_matches(self) -> str:
        """How many jobs match the filter, as far as that is known, and of how many."""
        assert self.last_poll is not None
        window, jobs = self.window, self.last_poll.snapshot.jobs
        total = jobs["failed"] if self.NAME == "failed" else sum(jobs.values())
        if by_state_alone(window.job_filter):
            return f"{self.table.count_jobs(self.last_poll):,} of {total:,} match"
        at_least = "" if window.has_start and window.has_end else "≥ "
        return f"{at_least}{len(window.lines) + window.dropped_lines:,} of {total:,} match"

    # --- keys

    def action_filter(self) -> None:
        label = "regex  !x  host:x  state:failed  group:g  outcome:error  age>5m"
        self.console_app.prompt.ask(
            label, self.typed_filter, lambda text: self.apply_filter(f"{self.base_filter} {text}".strip())
        )

    def apply_filter(self, text: str) -> None:
        """Show the jobs that match a filter. Raises UsageError on a text that is not a filter."""
        job_filter = parse(text)
        self.filter_text = text
        self.table.all_marked, self.table.marks = False, set()
        self.window.reset(job_filter)
        self.table.show([], keep=False)
        self.console_app.navigation.refresh_breadcrumbs()
        self.console_app.navigation.refresh_query()

    def action_back(self) -> None:
        """Clear the filter; without a filter the app goes back."""
        if self.console_app.navigation.depth == 1 and self.filter_text != self.base_filter:
            self.apply_filter(self.base_filter)
        else:
            raise SkipAction

    def action_retry(self) -> None:
        """Retry the marked jobs, or all that match."""
        marked = [] if self.table.all_marked else [int(str(key)) for key in self.table.marks]
        self.console_app.actions.retry(marked, self.window.job_filter, marked=self.table.all_marked)

    def action_exclude(self) -> None:
        """Ask which queued jobs to take out of the run; says how many while it is typed."""
        if self.NAME == "failed":
            raise SkipAction
        self.console_app.prompt.ask(
            "exclude queued jobs: regex  host:x  group:g", self.typed_filter, self._exclude,
            preview=self.console_app.actions.preview_exclusion,
        )  # fmt: skip

    def _exclude(self, text: str) -> None:
        if text.strip():
            job_filter, actions = queued_filter(parse(text)), self.console_app.actions
            actions.count_then(job_filter, lambda count: actions.exclude(job_filter, count))

    @property
    def typed_filter(self) -> str:
        """What the operator typed, without what the view always starts with."""
        return self.filter_text.removeprefix(self.base_filter).strip()

    def action_payload(self) -> None:
        if self.table.row is not None:
            self.console_app.navigation.push_job(self.table.row.subject.id, "Payload")

    def on_line_table_row_highlighted(self) -> None:
        """Query the lines around the cursor; at once if they are not loaded."""
        self.window.first_visible = self.table.first_visible
        self.console_app.navigation.refresh_query(at_once=self.window.needs_lines())

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        job: JobLine = event.row.subject
        self.console_app.navigation.push_job(job.id, "Error" if job.state == "FAILED" else "Payload")

    on_line_table_scrolled = on_line_table_row_highlighted


def by_state_alone(job_filter: JobFilter) -> bool:
    """Whether the run's counters per state tell how many jobs match."""
    return job_filter.countable and not (job_filter.groups or job_filter.hosts)
