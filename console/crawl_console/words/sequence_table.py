"""The table of sequences: the pages of a group on a host, how far they are, what is left."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crawl_console.crawl.source import PollResult
from crawl_console.format import Span, format_count, progress_bar
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.store.read.snapshot import SequenceRow

_BAR_CELLS = 9


class ShownSequence(NamedTuple):
    """A sequence; `goes_on`: it still finds pages, so its share is not known."""

    sequence: SequenceRow
    goes_on: bool

    @property
    def left(self) -> int:
        return self.sequence.ready + self.sequence.delayed + self.sequence.taken

    @property
    def ratio(self) -> float:
        """The share of its pages that have ended."""
        s = self.sequence
        ended = s.done + s.failed + s.skipped
        total = ended + self.left + s.incomplete
        return ended / total if total else 0.0

    @property
    def is_lost(self) -> bool:
        return self.sequence.failed > 0 and not (self.sequence.done or self.left)

    @property
    def name(self) -> str:
        s = self.sequence
        return f"{'‖ ' if s.paused else '✗ ' if self.is_lost else ''}{s.group} · {s.host}"


def _name_span(shown: ShownSequence) -> Span:
    return shown.name, "bad" if shown.is_lost else "warn" if shown.sequence.paused else "text"


def _progress_span(shown: ShownSequence) -> Span:
    ratio = shown.ratio
    known = f"{progress_bar(ratio, _BAR_CELLS)} {int(ratio * 100):3}%"
    role = "accent" if ratio < 1 else "warn" if shown.sequence.failed else "good"
    return f"{progress_bar(None, _BAR_CELLS)} goes" if shown.goes_on else known, "bad" if shown.is_lost else role


def _held_span(shown: ShownSequence) -> Span:
    return format_count(shown.sequence.taken), "strong" if shown.sequence.taken else "dim"


SEQUENCE_COLUMNS: Sequence[Column[ShownSequence]] = (
    Column("SEQUENCE", 0, _name_span, lambda shown: shown.name, "the pages of a group on a host"),
    Column("PROGRESS", 14, _progress_span, lambda shown: shown.ratio, "the share of its pages that have ended"),
    Column(
        "LEFT",
        6,
        lambda shown: (format_count(shown.left), "text"),
        lambda shown: shown.left,
        "its open jobs",
        right=True,
    ),
    Column("HELD", 4, _held_span, lambda shown: shown.sequence.taken, "jobs that nodes hold", right=True),
)


def sequence_rows(poll: PollResult) -> list[Row]:
    run = poll.snapshot.run
    growing = set(run.judgement.growing) if run is not None and poll.is_live else ()
    ranked = sorted(poll.snapshot.sequences, key=_sequence_rank)
    rows = [item_row(SEQUENCE_COLUMNS, s.id, ShownSequence(s, s.id in growing), s) for s in ranked]
    return rows + [_browser_row(group) for group in poll.snapshot.metrics["groups"] if group["browser"]]


def _browser_row(group: Mapping[str, Any]) -> Row:
    """For how many pages of a group its browser was needed."""
    return Row(f"browser {group['group']}", ((f"{group['group']}: {group['browser']}", "dim"),))


def _sequence_rank(s: SequenceRow) -> tuple[bool, bool, int]:
    """What works first, then what waits, then what has ended; an order that does not change with every poll."""
    return s.paused or not s.taken, not (s.ready or s.delayed or s.taken), s.id
