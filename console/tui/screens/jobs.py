"""Screens 2 and 4, Jobs and Failed: a window on all jobs that match, with retry of the marked ones or of all."""

import time
from collections.abc import Sequence

from textual.app import ComposeResult

from console.cli.commands.listing import span
from console.filter_syntax import parse
from console.format import format_age, format_count, short_url
from console.tui.screens.base import View
from console.tui.state.job_window import Found, Window
from console.tui.state.source import Look, Reading
from console.tui.widgets.line_canvas import Canvas, Line, Span
from console.tui.widgets.line_table import Column, Row, Table
from engine.errors import CrawlError
from engine.store.db.filter import EVERY_JOB, Filter
from engine.store.read.browse import JobLine
from engine.urls import without_credentials

STATES = {
    "READY": ("◌ ready", "text"), "TAKEN": ("▶ taken", "good"), "DONE": ("● done", "dim"),
    "FAILED": ("✗ failed", "bad"), "SKIPPED": ("□ skipped", "dim"), "INCOMPLETE": ("◐ cut off", "warn"),
}  # fmt: skip


class JobTable(Table):
    """The window's lines. Order is the list's own: a million rows are not sorted."""

    COLUMNS: Sequence[Column] = (
        Column("ID", 7, right=True), Column("STATE", 9), Column("TRY", 3, right=True), Column("AGE", 5, right=True),
        Column("NODE", 4, least=100), Column("GROUP", 12, least=90), Column("URL", 0),
        Column("REASON", 34, least=118),
    )  # fmt: skip
    EMPTY = "no jobs here"
    every = False
    """Whether all that match are marked, in sight or not."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window

    def act_bottom(self) -> None:
        """The last job of the list."""
        if self.window.whole_end:
            super().act_bottom()
        else:
            self.window.jump()
            self.console_app.reask()

    def act_top(self) -> None:
        """The first job of the list."""
        if not self.window.whole_start:
            self.window.begin(self.window.wanted)
            self.console_app.reask()
        super().act_top()

    def act_mark_all(self) -> None:
        """All that match, or none."""
        self.every = not self.every
        self.marks = {row.key for row in self.rows} if self.every else set()
        self.redraw()

    def act_mark(self) -> None:
        """This one."""
        self.every = False
        super().act_mark()

    def act_copy(self) -> None:
        """The URL."""
        if self.row is not None:
            self.console_app.copy(url_of(self.row.subject))

    def act_url(self) -> None:
        """The page in a browser."""
        if self.row is not None:
            self.console_app.browse(url_of(self.row.subject))

    def act_export(self) -> None:
        """All that match, as a CSV file, in sight or not."""
        self.console_app.export_jobs(self.window.wanted)

    def act_back(self) -> None:
        """Out of the marks, then what the view does."""
        if self.marks or self.every:
            self.marks, self.every = set(), False
            self.redraw()
        else:
            self.console_app.stack[-1].act_back()

    def act_filter(self) -> None:
        """The view's."""
        self.console_app.stack[-1].act_filter()

    def act_sort(self) -> None:
        """Not here."""
        self.console_app.say("jobs stand in the order they were found in; failed ones, newest first")

    act_reverse = act_sort


class FailedTable(JobTable):
    """What failed, why before where."""

    COLUMNS = (
        Column("ID", 7, right=True), Column("TRY", 3, right=True), Column("AGE", 5, right=True),
        Column("GROUP", 12, least=110), Column("REASON", 24, roomy=44), Column("URL", 0),
    )  # fmt: skip
    EMPTY = "✓ nothing failed"
    NEWEST_FIRST = True


class Counts(Canvas):
    """How many jobs are in each state, and what is shown of them."""

    look: Look | None = None
    note: Span = ("", "")

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        """One line."""
        spans: list[Span] = [("   ", "")]
        if self.look is not None:
            for name, number in self.look.snapshot.jobs.items():
                role = "dim" if not number else "bad" if name == "failed" else "text"
                spans += [(f"{name} ", "dim"), (f"{format_count(number)}  ", role)]
        return [Line((*spans, self.note))]


class JobsView(View):
    """The counts and the table. `base`: what the filter begins with."""

    NAME = "jobs"
    HINTS = (
        ("↵", "job"), ("/", "filter"), ("space", "mark"), ("*", "all"), ("r", "retry"), ("v", "payload"),
        ("o", "browser"), ("y", "copy"), ("?", "keys"), ("q", "quit"),
    )  # fmt: skip
    DEFAULT_CSS = "JobsView { layout: vertical; } JobsView Counts { height: 1; } JobsView JobTable { height: 1fr; }"

    def __init__(self, wanted: Filter = EVERY_JOB, *, name: str = "jobs") -> None:
        super().__init__()
        self.NAME = name
        self.base = "state:failed" if name == "failed" else ""
        self.text = wanted.text
        self.window = Window()
        self.window.begin(wanted)

    def compose(self) -> ComposeResult:
        """Counts above, jobs below."""
        self.counts = Counts()
        self.table = FailedTable(self.window) if self.NAME == "failed" else JobTable(self.window)
        yield self.counts
        yield self.table

    def crumb(self) -> str:
        """Jobs, and the filter."""
        title, typed = self.NAME.capitalize(), self.text.removeprefix(self.base).strip()
        return f"{title} /{typed}" if typed else title

    def reading(self) -> Reading | None:
        """The next part of the window."""
        self.window.page = max(10, self.table.size.height) if self.is_mounted else 40
        read = self.window.reading()
        return lambda source, look: read(source, look.run.seq) if look.run else None

    def show(self, look: Look) -> None:
        """What was read, where it was."""
        self.look = look
        if look.asked is self and isinstance(look.found, Found):
            moved = self.window.take(look.found)
            self._fill(moved)
        self.counts.look = look
        self.counts.note = self._note()
        self.counts.redraw()
        self.window.first = self.table.top
        self.console_app.reask(at_once=self.window.searching)

    def _fill(self, moved: int) -> None:
        table, now = self.table, time.time()
        rows = [_failed_row(j, now) if self.NAME == "failed" else _row(j, now) for j in self.window.lines]
        if table.every:
            table.marks = {row.key for row in rows}
        table.show(rows)
        if moved and not rows:
            table.act_top()

    def _note(self) -> Span:
        if self.window.searching:
            return (" searching…", "accent")
        if self.table.every:
            return (" ● all that match are marked", "accent")
        if self.table.marks:
            return (f" ● {len(self.table.marks)} marked", "accent")
        return ("", "")

    # --- what keys do here

    def act_filter(self) -> None:
        """Type a filter."""
        label = "regex  !x  host:x  state:failed  group:g  node:n2  age>5m  attempts>2"
        typed = self.text.removeprefix(self.base).strip()
        self.console_app.prompt.ask(label, typed, lambda text: self.narrow(f"{self.base} {text}".strip()))

    def narrow(self, text: str) -> None:
        """Show what matches."""
        try:
            wanted = parse(text)
        except CrawlError as error:
            self.console_app.say(f"{error.what}. {error.remedy}", "error")
            return
        self.text = text
        self.table.every, self.table.marks = False, set()
        self.window.begin(wanted)
        self.table.show([], keep=False)
        self.console_app.recrumb()
        self.console_app.reask()

    def act_back(self) -> None:
        """Out of the filter, then out of here."""
        if len(self.console_app.stack) == 1 and self.text != self.base:
            self.narrow(self.base)
        else:
            self.console_app.act_back()

    def act_retry(self) -> None:
        """The marked jobs, or all that match."""
        marked = [] if self.table.every else [int(str(key)) for key in self.table.marks]
        self.console_app.retry(marked, self.window.wanted, marked=self.table.every)

    def act_payload(self) -> None:
        """The payload of the job under the cursor."""
        if self.table.row is not None:
            self.open(self.table.row.subject, "Payload")

    def on_table_moved(self, _event: Table.Moved) -> None:
        """What lies around the cursor is read, at once where it may be needed soon."""
        self.window.first = self.table.top
        self.console_app.reask(at_once=self.window.short())

    def on_table_opened(self, event: Table.Opened) -> None:
        """Look into a job."""
        event.stop()
        self.open(event.row.subject, "Error" if event.row.subject.state == "FAILED" else "Payload")

    def open(self, line: JobLine, tab: str) -> None:
        """Look into a job."""
        from console.tui.screens.job import JobView

        self.console_app.push(JobView(line.id, tab))


def _age(line: JobLine, now: float) -> Span:
    if line.wait is not None:
        return (f"+{format_age(line.wait)}", "warn")
    return (span(now - line.changed_at) if line.changed_at else "-", "dim")


def url_of(line: JobLine) -> str:
    """Where the job's page is, without what is secret in it."""
    return without_credentials(line.target or line.url)


def _row(line: JobLine, now: float) -> Row:
    state = ("◷ waits", "warn") if line.wait is not None else STATES[line.state]
    crashed = f"{line.crashes} crashes; " if line.crashes else ""
    return Row(
        line.id,
        (
            (str(line.id), "dim"), state, (str(line.attempts), "text" if line.attempts else "dim"), _age(line, now),
            (line.node or "-", "dim"), (line.group, "text"), (short_url(url_of(line)), "text"),
            (crashed + (line.reason or ""), "bad" if line.state == "FAILED" else "dim"),
        ),
        (),
        line,
    )  # fmt: skip


def _failed_row(line: JobLine, now: float) -> Row:
    return Row(
        line.id,
        (
            (str(line.id), "dim"), (str(line.attempts), "text"), _age(line, now), (line.group, "text"),
            (line.reason or "no reason told", "bad"), (short_url(url_of(line)), "text"),
        ),
        (),
        line,
    )  # fmt: skip
