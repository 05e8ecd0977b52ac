"""Screen 7, Plots: pages and rows per second, errors and queue length over 5 minutes to 6 hours."""

import time
from collections.abc import Sequence
from typing import Any

from textual.app import ComposeResult

from console.format import format_rate
from console.tui.screens.base import View
from console.tui.state.source import PollResult, ViewQuery
from console.tui.widgets.braille import braille_plot
from console.tui.widgets.line_canvas import Line
from console.tui.widgets.pane import Pane
from engine.store.tables.samples import Sample

TIME_RANGES = (("5m", 300.0), ("15m", 900.0), ("1h", 3600.0), ("6h", 21_600.0))
_READ_INTERVAL = 1.0


class Plot(Pane):
    """One quantity over time. `cumulative`: plot the growth of the sample's field, not its value."""

    def __init__(self, heading: str, sample_field: str, role: str, *, cumulative: bool = False) -> None:
        super().__init__()
        self.heading, self.sample_field, self.role, self.cumulative = heading, sample_field, role, cumulative
        self.samples: Sequence[Sample] = ()
        self.time_range: tuple[str, float] = TIME_RANGES[0]

    def values(self, count: int) -> list[float]:
        """The quantity in `count` equal intervals ending now; 0 without samples."""
        end, length = time.time(), self.time_range[1] / count
        sums, counts = [0.0] * count, [0] * count
        previous: float | None = None
        for sample in self.samples:
            value = float(getattr(sample, self.sample_field))
            if self.cumulative:
                value, previous = max(0.0, value - previous) if previous is not None else 0.0, value
            index = count - 1 - int((end - sample.at) / length)
            if 0 <= index < count:
                sums[index] += value
                counts[index] += 1
        means = [s if self.cumulative else s / n if n else -1.0 for s, n in zip(sums, counts, strict=True)]
        return _fill_gaps(means)

    def paint(self, width: int, height: int) -> list[Line]:
        """A rule with the figures, and the plot."""
        values = self.values(max(2, (width - 10) * 2))
        top, last = max(values, default=0.0), values[-1] if values else 0.0
        note = f"now {format_rate(last)}  top {format_rate(top)}  last {self.time_range[0]}"
        rows = braille_plot(values, width - 10, height - 1)
        scale = [format_rate(top) if i == 0 else "0" if i == len(rows) - 1 else "" for i in range(len(rows))]
        dots = [Line(((f"{mark:>8} ", "dim"), (row, self.role))) for mark, row in zip(scale, rows, strict=True)]
        return [self.rule(width, self.heading, note), *dots]


def _fill_gaps(values: list[float]) -> list[float]:
    """Intervals without a sample (-1) repeat the previous value, for a short time."""
    filled, last, gap = [], 0.0, 0
    for value in values:
        gap = 0 if value >= 0 else gap + 1
        last = value if value >= 0 else last if gap < 12 else 0.0
        filled.append(last)
    return filled


class PlotsView(View):
    """Four plots, two in a row in wide windows; `s` changes the time range."""

    NAME = "plots"
    SNAPSHOT_LIMIT = 0
    HINTS = (("s", "range: 5m 15m 1h 6h"), ("z", "zoom"), ("tab", "panes"), ("?", "keys"), ("q", "quit"))
    DEFAULT_CSS = "PlotsView { layout: grid; grid-size: 1 4; } PlotsView.wide { grid-size: 2 2; grid-gutter: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.range_index = 0
        self._next_read_at = 0.0
        self._zoomed = False

    def compose(self) -> ComposeResult:
        """The plots."""
        self.plots = (
            Plot("pages a second", "pages", "good"),
            Plot("rows a second", "rows", "accent"),
            Plot("errors", "failed", "bad", cumulative=True),
            Plot("queue", "queue", "warn"),
        )
        yield from self.plots

    def breadcrumb(self) -> str:
        """The time range."""
        return f"Plots > {TIME_RANGES[self.range_index][0]}"

    def view_query(self) -> ViewQuery | None:
        """The samples of the time range, at most once a second."""
        if time.monotonic() < self._next_read_at:
            return None
        since = time.time() - TIME_RANGES[self.range_index][1]
        return lambda source, snapshot: source.samples(snapshot.run.seq, since) if snapshot.run else None

    def show(self, poll: PollResult) -> None:
        """Show new samples."""
        self.last_poll = poll
        if poll.requester is self and poll.view_data is not None:
            self._next_read_at = time.monotonic() + _READ_INTERVAL
            for plot in self.plots:
                plot.samples, plot.time_range = poll.view_data, TIME_RANGES[self.range_index]
                plot.redraw()
        self.console_app.navigation.refresh_query(at_once=False)

    def on_resize(self, event: Any) -> None:
        """Two plots in a row, or one."""
        self.set_class(event.size.width >= 110 and not self._zoomed, "wide")

    def action_sort(self) -> None:
        """Change to the next time range."""
        self.range_index, self._next_read_at = (self.range_index + 1) % len(TIME_RANGES), 0.0
        self.console_app.navigation.refresh_breadcrumbs()
        self.console_app.navigation.refresh_query()

    def action_zoom(self) -> None:
        """Show the focused plot only, or all plots."""
        self._zoomed = not self._zoomed
        for plot in self.plots:
            plot.display = not self._zoomed or plot is self.screen.focused
        self.styles.grid_size_rows = 1 if self._zoomed else None
        self.set_class(self.size.width >= 110 and not self._zoomed, "wide")
