"""The table of failures: a row for each reason and host."""

from crawl_console.format import format_count, plural
from crawl_console.words.table import Column, Row, RowKey
from crawl_engine.store.read.failures import FailureGroup
from crawl_engine.store.read.snapshot import Snapshot

FAILURE_COLUMNS = (
    Column("PAGES", 7, right=True), Column("REASON", 0), Column("HOST", 26, wide_width=40, keeps_end=True),
    Column("GROUPS", 24, min_pane_width=110),
)  # fmt: skip


def describe_no_failure(snapshot: Snapshot) -> str:
    """What stands in place of the table, where there is more to say than that nothing failed."""
    delayed = snapshot.delayed
    refused = [alarm.text for alarm in snapshot.alarms if alarm.code == "host-refused"]
    text = f"✓ nothing failed for good; {plural(delayed, 'page')} will be tried again" if delayed else ""
    return f"! nothing failed for good yet, but {'; '.join(refused)}" if refused else text


def failure_key(group: FailureGroup) -> RowKey:
    return (group.host, group.reason)


def failure_row(group: FailureGroup) -> Row:
    return Row(
        failure_key(group),
        (
            (format_count(group.jobs), "strong"), (group.reason or "no reason", "bad"), (group.host, "text"),
            (", ".join(group.groups), "dim"),
        ),
        (group.jobs, group.reason, group.host, ", ".join(group.groups)),
        group,
    )  # fmt: skip
