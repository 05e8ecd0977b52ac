"""What the crawl gave so far: rows, rejected records and the least filled field of each dataDef."""

from collections.abc import Sequence
from typing import NamedTuple

from console.format import format_count, shorten_name
from console.tui.state.source import PollResult
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane
from engine.store.read.snapshot import Snapshot

_NUMBERS = 8 + 9
_FILLED = 18


class DataDefLine(NamedTuple):
    name: str
    rows: int
    rejected: int
    least_filled: str
    warned: bool
    """Whether a warning about it holds now."""


class DataPane(Pane):
    """Lists the dataDefs that were applied; those with a warning first."""

    TITLE = "data"
    data_defs: Sequence[DataDefLine] = ()

    def update_from(self, poll: PollResult) -> None:
        lines = [_line(poll.snapshot, name) for name in poll.snapshot.data_defs]
        self.data_defs = sorted(lines, key=lambda line: not line.warned)
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        headings = f"{'ROWS':>8}{'REJECTED':>9}  {'LEAST FILLED':<{_FILLED - 2}}"
        lines = [self.rule(width, headings=headings)]
        if not self.data_defs:
            return [*lines, Line((("   nothing yet", "dim"),))]
        name_width = max(6, width - 3 - _NUMBERS - _FILLED)
        for line in self.data_defs:
            spans: list[Span] = [
                (f"   {shorten_name(line.name, name_width):<{name_width}}", "text"),
                (f"{format_count(line.rows):>8}", "strong"),
                (f"{format_count(line.rejected):>9}", "warn" if line.rejected else "dim"),
                (f"  {'! ' if line.warned else ''}{line.least_filled}", "bad" if line.warned else "dim"),
            ]
            lines.append(Line(tuple(spans)))
        return lines[:height]


def _line(snapshot: Snapshot, name: str) -> DataDefLine:
    data_def = snapshot.data_defs[name]
    warned = any(warning.data_def == name and not warning.ended for warning in snapshot.warnings)
    least = min(data_def.filled.items(), key=lambda item: item[1], default=None)
    text = "-" if least is None or not data_def.records else f"{least[0]} {least[1] / data_def.records:.1%}"
    return DataDefLine(name, snapshot.rows.get(name, 0), snapshot.rejected.get(name, 0), text, warned)
