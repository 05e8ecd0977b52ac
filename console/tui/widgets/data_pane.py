"""What the crawl gave so far: rows, rejected records and the least filled field of each dataDef."""

from collections.abc import Sequence
from typing import NamedTuple

from console.crawl.source import PollResult
from console.format import format_count
from console.tui.widgets.line_canvas import Span
from console.tui.widgets.pane import ListPane
from engine.store.read.snapshot import Snapshot


class DataDefLine(NamedTuple):
    name: str
    rows: int
    rejected: int
    least_filled: str
    warned: bool
    """Whether a warning about it holds now."""


class DataPane(ListPane):
    """Lists the dataDefs that were applied; those with a warning first."""

    TITLE = "data"
    HEADINGS = f"{'ROWS':>8}{'REJECTED':>9}  {'LEAST FILLED':<16}"
    EMPTY = "nothing yet"

    def update_from(self, poll: PollResult) -> None:
        lines = [_line(poll.snapshot, name) for name in poll.snapshot.data_defs]
        self.show(sorted(lines, key=lambda line: not line.warned))

    def spans(self, item: DataDefLine) -> tuple[str, Sequence[Span]]:
        return item.name, (
            (f"{format_count(item.rows):>8}", "strong"),
            (f"{format_count(item.rejected):>9}", "warn" if item.rejected else "dim"),
            (f"  {'! ' if item.warned else ''}{item.least_filled}", "bad" if item.warned else "dim"),
        )


def _line(snapshot: Snapshot, name: str) -> DataDefLine:
    data_def = snapshot.data_defs[name]
    warned = any(warning.data_def == name and not warning.ended for warning in snapshot.warnings)
    least = min(data_def.filled.items(), key=lambda item: item[1], default=None)
    text = "-" if least is None or not data_def.records else f"{least[0]} {least[1] / data_def.records:.1%}"
    return DataDefLine(name, snapshot.rows.get(name, 0), snapshot.rejected.get(name, 0), text, warned)
