"""Screen 7, Plots: answers by status, latency, rows and queue over the whole run or its last hours."""

import time
from collections.abc import Sequence

from textual.app import ComposeResult

from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.format import braille_plot, format_count, format_latency, format_rate
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.chart import POINTS, SCALE_WIDTH, Point, chart_lines, draw_points
from crawl_console.tui.widgets.line_canvas import Line
from crawl_console.tui.widgets.pane import Pane
from crawl_console.words.series import (
    ANSWER_MEANINGS,
    ANSWER_ROLES,
    MAX_GAP_SECONDS,
    MIN_SECONDS,
    TIME_RANGES,
    find_range,
    mean,
    split_samples,
)
from crawl_engine.model.host import STATUS_CLASSES
from crawl_engine.store.tables.run.samples import Sample

_WIDE, _NARROW_PLOTS = 110, 2


class Plot(Pane):
    """One chart over time."""

    role = "accent"
    samples: Sequence[Sample] = ()
    range_name = ""
    seconds = MIN_SECONDS
    """How far the chart goes back from `ends_at`, wall clock."""
    ends_at = 0.0
    is_live = True
    """Whether the run goes on: its newest sample is of now."""

    def columns(self, count: int) -> list[list[Sample]]:
        return split_samples(self.samples, count, self.seconds, self.ends_at)

    def paint(self, width: int, height: int) -> list[Line]:
        title, note = self.labels()
        lines = [self.rule(width, title, note)]
        if height < 3:
            return lines
        columns = self.columns(POINTS * max(1, width - SCALE_WIDTH - 1))
        legend = self.legend(columns, width)[: max(0, height - 5)]
        rows, top = max(1, height - 2 - len(legend)), self.peak()
        cells = draw_points([self.point(column) for column in columns], top, rows)
        scale, middle = self.format(top), self.format(top / 2)
        chart = chart_lines(cells, rows, scale, middle, ends_at=self.ends_at, seconds=self.seconds)
        return [*lines, *chart, *legend]

    def legend(self, columns: Sequence[Sequence[Sample]], width: int) -> list[Line]:  # noqa: ARG002
        """Lines below the chart."""
        return []

    def peak(self) -> float:
        """The highest sample of the range: the same however wide the chart is."""
        since = self.ends_at - self.seconds
        return max((self.height(sample) for sample in self.samples if sample.at >= since), default=0.0)

    def labels(self) -> tuple[str, str]:
        """Title, and the figures behind it."""
        last = self.last()
        now = self.height(last) if last is not None else 0.0
        return self.TITLE, f"{self.moment} {self.format(now)}  {self.range_label()}"

    @property
    def moment(self) -> str:
        """What the newest sample is."""
        return "now" if self.is_live else "at the end"

    def last(self) -> Sample | None:
        """The newest sample; None if it is too old."""
        if self.samples and self.ends_at - self.samples[-1].at < MAX_GAP_SECONDS:
            return self.samples[-1]
        return None

    def range_label(self) -> str:
        """The highest value, and how far back the chart goes."""
        return f"top {self.format(self.peak())}  {self.range_name}"

    def height(self, sample: Sample) -> float:
        """How high the chart is at a sample."""
        raise NotImplementedError

    def format(self, value: float) -> str:
        return format_rate(value)

    def point(self, column: Sequence[Sample]) -> Point:
        """What is drawn of some samples: their mean."""
        return Point([(mean([self.height(sample) for sample in column]), self.role)])


class AnswersPlot(Plot):
    """Answers a second, by class of status."""

    TITLE = "answers a second"

    def height(self, sample: Sample) -> float:
        return sum(sample.answers.values())

    def point(self, column: Sequence[Sample]) -> Point:
        """A part a class."""
        return Point(
            [(mean([sample.answers.get(name, 0.0) for sample in column]), ANSWER_ROLES[name]) for name in ANSWER_ROLES]
        )

    def legend(self, columns: Sequence[Sequence[Sample]], width: int) -> list[Line]:
        """A strip for each class that occurs, over the same time: how it went, and what it means."""
        last = sample.answers if (sample := self.last()) is not None else {}
        strips = {}
        for name in STATUS_CLASSES:
            means = [mean([sample.answers.get(name, 0.0) for sample in column]) for column in columns]
            if any(means):
                newest = f"{self.moment} {format_rate(last.get(name, 0.0))}"
                words = f"  {ANSWER_MEANINGS[name]}  {newest}  top {format_rate(max(means))}"
                strips[name] = means, words
        cells = width - SCALE_WIDTH - max((len(words) for _, words in strips.values()), default=0) - 1
        lines = []
        for name, (means, words) in strips.items():
            points = POINTS * max(1, cells)
            peaks = [max(means[at * len(means) // points : max(1, (at + 1) * len(means) // points)] or [0.0])
                     for at in range(points)]  # fmt: skip
            [strip] = braille_plot(peaks, max(1, cells), 1)
            role = ANSWER_ROLES[name]
            lines.append(Line(((f" {name:<{SCALE_WIDTH - 1}}", role), (strip, role), (words, "text"))))
        return lines


class LatencyPlot(Plot):
    """p50 and p95 of the answers."""

    TITLE = "latency"

    def height(self, sample: Sample) -> float:
        """The slower of the two."""
        return sample.p95 or 0.0

    def point(self, column: Sequence[Sample]) -> Point:
        """p50 as an area, p95 as a line."""
        low = [sample.p50 for sample in column if sample.p50 is not None]
        high = [sample.p95 for sample in column if sample.p95 is not None]
        return Point([(mean(low), self.role)] if low else (), mean(high) if high else None)

    def format(self, value: float) -> str:
        return format_latency(value) if value else "0"

    def labels(self) -> tuple[str, str]:
        last = self.last()
        now = "no answers"
        if last is not None and last.p50 is not None:
            now = f"area p50 {format_latency(last.p50)}  line p95 {format_latency(last.p95)}"
        return self.TITLE, f"{now}  {self.range_label()}"


class RowsPlot(Plot):
    TITLE = "rows a second"

    def height(self, sample: Sample) -> float:
        return sample.rows


class QueuePlot(Plot):
    TITLE = "queue"
    role = "warn"

    def height(self, sample: Sample) -> float:
        return float(sample.queue)

    def format(self, value: float) -> str:
        return format_count(value)


class PlotsView(View):
    """Four plots, two in a row in wide windows, in narrow ones the focused one and the next; `s` changes the range."""

    NAME = "plots"
    SNAPSHOT_LIMIT = 0
    READ_INTERVAL = 1.0
    HINTS = (("sort", "range: run 5m 15m 1h 6h"), ("zoom", "zoom"), ("next_pane", "panes"))
    DEFAULT_CSS = "PlotsView { layout: grid; grid-size: 1 2; } PlotsView.wide { grid-size: 2 2; grid-gutter: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.range_index = 0
        self._zoomed = False

    def compose(self) -> ComposeResult:
        self.plots = (AnswersPlot(), LatencyPlot(), RowsPlot(), QueuePlot())
        yield from self.plots

    def breadcrumb(self) -> str:
        return f"Plots > {TIME_RANGES[self.range_index][0]}"

    def read(self, source: DataSource, run: int) -> list[Sample]:
        seconds = TIME_RANGES[self.range_index][1]
        return source.samples(run, time.time() - seconds if seconds else 0.0)

    def show(self, poll: PollResult) -> None:
        samples = self.take_data(poll)
        if samples is None:
            return
        name, seconds, ends_at = find_range(samples, *TIME_RANGES[self.range_index], is_live=poll.is_live)
        for plot in self.plots:
            plot.samples, plot.range_name, plot.seconds, plot.ends_at = samples, name, seconds, ends_at
            plot.is_live = poll.is_live
            plot.redraw()

    def panes(self) -> Sequence[Plot]:
        """All plots: in a narrow window `tab` shows the next one."""
        return self.plots

    def on_resize(self) -> None:
        self._arrange()

    def on_descendant_focus(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        wide, focused = self.size.width >= _WIDE, self.screen.focused
        first = next((place for place, plot in enumerate(self.plots) if plot is focused), 0)
        count = 1 if self._zoomed else len(self.plots) if wide else _NARROW_PLOTS
        shown = [self.plots[(first + step) % len(self.plots)] for step in range(count)]
        for plot in self.plots:
            plot.display = plot in shown
        self.styles.grid_size_rows = 1 if self._zoomed else None
        self.set_class(wide and not self._zoomed, "wide")

    def action_sort(self) -> None:
        """Change to the next time range."""
        self.range_index, self._next_read_at = (self.range_index + 1) % len(TIME_RANGES), 0.0
        self.console_app.navigation.refresh_breadcrumbs()
        self.console_app.navigation.refresh_query()

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._arrange()
