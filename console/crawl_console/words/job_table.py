"""The table of jobs."""

from crawl_console.format import Span, format_age, format_elapsed, plural, short_url
from crawl_console.words.table import Column, Row
from crawl_engine.store.read.browse import JobLine
from crawl_engine.urls import without_credentials

STATE_LABELS = {
    "READY": ("◌ ready", "text"), "TAKEN": ("▶ taken", "good"), "DONE": ("● done", "dim"),
    "FAILED": ("✗ failed", "bad"), "SKIPPED": ("□ skipped", "dim"), "INCOMPLETE": ("◐ cut off", "warn"),
}  # fmt: skip
JOB_COLUMNS = (
    Column("ID", 7, right=True), Column("STATE", 9), Column("TRY", 3, right=True), Column("AGE", 5, right=True),
    Column("NODE", 4, min_pane_width=100), Column("GROUP", 12, min_pane_width=90), Column("URL", 0),
    Column("REASON", 34, min_pane_width=118),
)  # fmt: skip


def _age_span(line: JobLine, now: float) -> Span:
    if line.wait is not None:
        return (f"+{format_age(line.wait)}", "warn")
    return (format_elapsed(now - line.changed_at) if line.changed_at else "-", "dim")


def redacted_url(line: JobLine) -> str:
    """The URL of the job's page, without credentials."""
    return without_credentials(line.target or line.url)


def job_row(line: JobLine, now: float) -> Row:
    state = ("◷ waiting", "warn") if line.wait is not None else STATE_LABELS[line.state]
    crashed = f"{plural(line.crashes, 'crash')}; " if line.crashes else ""
    return Row(
        line.id,
        (
            (str(line.id), "dim"), state, (str(line.attempts), "text" if line.attempts else "dim"),
            _age_span(line, now),
            (line.node or "-", "dim"), (line.group, "text"), (short_url(redacted_url(line)), "text"),
            (crashed + (line.reason or ""), "bad" if line.state == "FAILED" else "dim"),
        ),
        (),
        line,
    )  # fmt: skip


def failed_row(line: JobLine, now: float) -> Row:
    return Row(
        line.id,
        (
            (str(line.id), "dim"), (str(line.attempts), "text"), _age_span(line, now), (line.group, "text"),
            (line.reason or "unknown reason", "bad"), (short_url(redacted_url(line)), "text"),
        ),
        (),
        line,
    )  # fmt: skip
