"""The tables of jobs: of all, and of failed ones."""

from collections.abc import Sequence
from typing import NamedTuple

from crawl_console.format import Span, format_age, format_elapsed, plural, short_url
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.store.read.browse import JobLine
from crawl_engine.urls import without_credentials

STATE_LABELS = {
    "READY": ("◌ ready", "text"), "TAKEN": ("▶ taken", "good"), "DONE": ("● done", "dim"),
    "FAILED": ("✗ failed", "bad"), "SKIPPED": ("□ skipped", "dim"), "INCOMPLETE": ("◐ cut off", "warn"),
}  # fmt: skip


class ShownJob(NamedTuple):
    line: JobLine
    now: float


def redacted_url(line: JobLine) -> str:
    """The URL of the job's page, without credentials."""
    return without_credentials(line.target or line.url)


def _state_span(shown: ShownJob) -> Span:
    return ("◷ waiting", "warn") if shown.line.wait is not None else STATE_LABELS[shown.line.state]


def _age_span(shown: ShownJob) -> Span:
    line = shown.line
    if line.wait is not None:
        return (f"+{format_age(line.wait)}", "warn")
    return (format_elapsed(shown.now - line.changed_at) if line.changed_at else "-", "dim")


def _reason_span(shown: ShownJob) -> Span:
    line = shown.line
    crashed = f"{plural(line.crashes, 'crash')}; " if line.crashes else ""
    return crashed + (line.reason or ""), "bad" if line.state == "FAILED" else "dim"


_ID: Column[ShownJob] = Column("ID", 7, lambda shown: (str(shown.line.id), "dim"), None, "of the job", right=True)
_AGE: Column[ShownJob] = Column("AGE", 5, _age_span, None, "since it changed; +: until it is tried again", right=True)
_URL: Column[ShownJob] = Column(
    "URL", 0, lambda shown: (short_url(redacted_url(shown.line)), "text"), None, "of its page"
)
JOB_COLUMNS: Sequence[Column[ShownJob]] = (
    _ID,
    Column("STATE", 9, _state_span, None, "of the job"),
    Column(
        "TRY", 3, lambda shown: (str(shown.line.attempts), "text" if shown.line.attempts else "dim"), None,
        "attempts so far", right=True,
    ),
    _AGE,
    Column("NODE", 4, lambda shown: (shown.line.node or "-", "dim"), None, "that has it", min_pane_width=100),
    Column("GROUP", 12, lambda shown: (shown.line.group, "text"), None, "of its page", min_pane_width=90),
    _URL,
    Column("REASON", 34, _reason_span, None, "why it failed or waits", min_pane_width=118),
)  # fmt: skip
FAILED_COLUMNS: Sequence[Column[ShownJob]] = (
    _ID,
    Column("TRY", 3, lambda shown: (str(shown.line.attempts), "text"), None, "attempts", right=True),
    _AGE,
    Column("GROUP", 12, lambda shown: (shown.line.group, "text"), None, "of its page", min_pane_width=110),
    Column(
        "REASON", 24, lambda shown: (shown.line.reason or "unknown reason", "bad"), None, "why it failed",
        wide_width=44,
    ),
    _URL,
)  # fmt: skip


def job_row(line: JobLine, now: float, columns: Sequence[Column[ShownJob]] = JOB_COLUMNS) -> Row:
    return item_row(columns, line.id, ShownJob(line, now), line)
