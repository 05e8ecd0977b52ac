"""The table of sequences: the pages of a group on a host, how far they are, what is left."""

from collections.abc import Mapping
from typing import Any

from crawl_console.crawl.source import PollResult
from crawl_console.format import format_count, progress_bar
from crawl_console.words.table import Column, Row
from crawl_engine.store.read.snapshot import SequenceRow

SEQUENCE_COLUMNS = (
    Column("SEQUENCE", 0),
    Column("PROGRESS", 14),
    Column("LEFT", 6, right=True),
    Column("HELD", 4, right=True),
)


def sequence_rows(poll: PollResult) -> list[Row]:
    run = poll.snapshot.run
    growing = set(run.judgement.growing) if run is not None and poll.is_live else ()
    ranked = sorted(poll.snapshot.sequences, key=_sequence_rank)
    rows = [_sequence_row(s, goes_on=s.id in growing) for s in ranked]
    return rows + [_browser_row(group) for group in poll.snapshot.metrics["groups"] if group["browser"]]


def _browser_row(group: Mapping[str, Any]) -> Row:
    """For how many pages of a group its browser was needed."""
    return Row(f"browser {group['group']}", ((f"{group['group']}: {group['browser']}", "dim"),))


def _sequence_rank(s: SequenceRow) -> tuple[bool, bool, int]:
    """What works first, then what waits, then what has ended; an order that does not change with every poll."""
    return s.paused or not s.taken, not (s.ready or s.delayed or s.taken), s.id


def _sequence_row(s: SequenceRow, *, goes_on: bool) -> Row:
    """A sequence; the share of one that still finds pages is not known."""
    waiting = s.ready + s.delayed
    left = waiting + s.taken
    ended = s.done + s.failed + s.skipped
    total = ended + left + s.incomplete
    ratio = ended / total if total else 0.0
    is_lost = s.failed > 0 and not (s.done or left)
    name = f"{'‖ ' if s.paused else '✗ ' if is_lost else ''}{s.group} · {s.host}"
    progress = f"{progress_bar(None, 9)} goes" if goes_on else f"{progress_bar(ratio, 9)} {int(ratio * 100):3}%"
    return Row(
        s.id,
        (
            (name, "bad" if is_lost else "warn" if s.paused else "text"),
            (progress, "bad" if is_lost else "accent" if ratio < 1 else "warn" if s.failed else "good"),
            (format_count(left), "text"),
            (format_count(s.taken), "strong" if s.taken else "dim"),
        ),
        (name, ratio, left, s.taken),
        s,
    )
