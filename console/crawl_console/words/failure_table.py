"""The table of failures: a row for each reason and host."""

from collections.abc import Sequence

from crawl_console.format import format_count, plural
from crawl_console.words.table import Column, Row, RowKey, item_row
from crawl_engine.store.read.failures import FailureGroup
from crawl_engine.store.read.snapshot import Snapshot

FAILURE_COLUMNS: Sequence[Column[FailureGroup]] = (
    Column(
        "PAGES", 7, lambda group: (format_count(group.jobs), "strong"), lambda group: group.jobs, "that failed",
        right=True,
    ),
    Column(
        "REASON", 0, lambda group: (group.reason or "no reason", "bad"), lambda group: group.reason, "why they failed"
    ),
    Column(
        "HOST", 26, lambda group: (group.host, "text"), lambda group: group.host, "of these pages", wide_width=40,
        keeps_end=True,
    ),
    Column(
        "GROUPS", 24, lambda group: (", ".join(group.groups), "dim"), lambda group: ", ".join(group.groups),
        "of these pages", min_pane_width=110,
    ),
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
    return item_row(FAILURE_COLUMNS, failure_key(group), group, group)
