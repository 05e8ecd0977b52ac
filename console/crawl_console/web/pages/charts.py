"""Draws series as SVG: stacked areas, lines above them, a scale and a time axis."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from crawl_console.format import format_count, format_latency, format_rate
from crawl_console.words.series import ANSWER_MEANINGS, ANSWER_ROLES, mean, split_samples
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.samples import Sample

WIDTH, HEIGHT = 600, 150
"""Units of the drawing, which takes the width of its place."""
_LEFT, _BOTTOM, _TOP = 46, 18, 6
_POINTS = 180
_TICKS = 4
_SPOTS = 60
_MAX_TOLD = 8
"""Events of one mark that are told."""


class ChartPart(Struct, frozen=True):
    """A part of a chart: its path, and how it looks: `area` or `line` and a role."""

    path: str
    css: str


class Label(Struct, frozen=True):
    x: float
    y: float
    text: str
    css: str


class Spot(Struct, frozen=True):
    """A part of the time axis; `text` is shown where the pointer rests."""

    x: float
    width: float
    text: str


class Mark(Struct, frozen=True):
    """Something that happened, as a line across a chart."""

    x: float
    role: str
    text: str


class Legend(Struct, frozen=True):
    name: str
    role: str
    text: str


class Chart(Struct, frozen=True):
    """`text`: what it shows, in words."""

    id: str
    title: str
    text: str
    shapes: Sequence[ChartPart]
    labels: Sequence[Label]
    grid: Sequence[float]
    """Heights of its lines."""
    legend: Sequence[Legend] = ()
    spots: Sequence[Spot] = ()
    marks: Sequence[Mark] = ()


def draw_charts(
    samples: Sequence[Sample], name: str, seconds: float, ends_at: float, *, is_live: bool,
    events: Sequence[Event] = (),
) -> list[Chart]:  # fmt: skip
    """Answers by class, latency, rows and queue. `name`: of the range of time, which ends at `ends_at`, wall clock.

    `events`: what is marked on all of them.
    """
    columns = split_samples(samples, _POINTS, seconds, ends_at)
    moment = "now" if is_live else "at the end"
    last = samples[-1] if samples else None
    times = _time_labels(seconds, ends_at)

    def series(value: Callable[[Sample], float | None]) -> list[float | None]:
        found = [[one for sample in column if (one := value(sample)) is not None] for column in columns]
        return [mean(values) if values else None for values in found]

    def words(newest: str, top: str) -> str:
        return f"{moment} {newest}, top {top}, {name}"

    classes = {
        one: series(lambda sample, one=one: sample.answers.get(one, 0.0))  # type: ignore[misc]
        for one in ANSWER_ROLES
        if any(sample.answers.get(one) for sample in samples)
    }
    since = ends_at - seconds
    shown = [sample for sample in samples if sample.at >= since]

    def peak(value: Callable[[Sample], float]) -> float:
        return max(map(value, shown), default=0.0)

    total = peak(lambda sample: sum(sample.answers.values()))
    slowest = peak(lambda sample: sample.p95 or 0.0)
    rows, queue = peak(lambda sample: sample.rows), peak(lambda sample: float(sample.queue))
    answers = format_rate(sum(last.answers.values()) if last else 0.0)
    p50, p95 = (format_latency(last.p50), format_latency(last.p95)) if last else ("-", "-")
    legend = [
        Legend(one, ANSWER_ROLES[one], f"{ANSWER_MEANINGS[one]}, {moment} {format_rate(last.answers.get(one, 0.0))}")
        for one in classes
        if last is not None
    ]
    marks = _draw_marks(events, seconds, ends_at)

    def spots(describe: Callable[[Sample], str]) -> list[Spot]:
        return _draw_spots(columns, describe)

    def describe_answers(sample: Sample) -> str:
        rates = [f"{one} {format_rate(rate)}" for one in classes if (rate := sample.answers.get(one))]
        return ", ".join(rates) or "no answers"

    return [
        Chart("answers", "Answers a second", words(answers, format_rate(total)), _stack(classes, total),
              [*_scale(total, format_rate), *times], _GRID, legend, spots(describe_answers), marks),
        Chart("latency", "Latency", words(f"p50 {p50}, p95 {p95}", format_latency(slowest)),
              [_area(series(lambda sample: sample.p50), None, slowest, "accent"),
               _line(series(lambda sample: sample.p95), slowest, "warn")],
              [*_scale(slowest, format_latency), *times], _GRID,
              [Legend("area", "accent", f"p50, {moment} {p50}"), Legend("line", "warn", f"p95, {moment} {p95}")],
              spots(lambda sample: f"p50 {format_latency(sample.p50)}, p95 {format_latency(sample.p95)}"), marks),
        Chart("rows", "Rows a second", words(format_rate(last.rows if last else 0.0), format_rate(rows)),
              [_area(series(lambda sample: sample.rows), None, rows, "accent")],
              [*_scale(rows, format_rate), *times], _GRID, (),
              spots(lambda sample: f"{format_rate(sample.rows)} rows/s"), marks),
        Chart("queue", "Queue", words(format_count(last.queue if last else 0), format_count(queue)),
              [_area(series(lambda sample: float(sample.queue)), None, queue, "warn")],
              [*_scale(queue, format_count), *times], _GRID, (),
              spots(lambda sample: f"{format_count(sample.queue)} waiting"), marks),
    ]  # fmt: skip


def _draw_spots(columns: Sequence[Sequence[Sample]], describe: Callable[[Sample], str]) -> list[Spot]:
    """What is told of each piece of the axis that has a sample."""
    step = _POINTS // _SPOTS
    width = round((WIDTH - _LEFT) / _SPOTS, 1)
    found = []
    for number in range(_SPOTS):
        piece = [sample for column in columns[number * step : (number + 1) * step] for sample in column]
        if piece:
            at = time.strftime("%H:%M:%S", time.localtime(piece[-1].at))
            found.append(Spot(round(_LEFT + number * width, 1), width, f"{at}: {describe(piece[-1])}"))
    return found


def _draw_marks(events: Sequence[Event], seconds: float, ends_at: float) -> list[Mark]:
    """The events of the range; of those at one place, one line tells all."""
    texts: dict[float, list[str]] = {}
    roles: dict[float, str] = {}
    for event in events:
        share = (event.at - ends_at + seconds) / seconds if seconds else -1.0
        if 0 <= share <= 1:
            x = round(_LEFT + share * (WIDTH - _LEFT))
            texts.setdefault(x, []).append(
                f"{time.strftime('%H:%M:%S', time.localtime(event.at))} {event.source}: {event.text[:200]}"
            )
            roles[x] = "bad" if event.level == "ERROR" else "warn" if event.level == "WARNING" else "accent"
    return [Mark(x, roles[x], "\n".join(lines[:_MAX_TOLD])) for x, lines in texts.items()]


def spark_path(values: Sequence[float], width: float, height: float) -> str:
    """The values as a line, the newest at the right; empty without two of them."""
    top = max(values, default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    points = [f"{place * step:.1f} {height - 1 - value / top * (height - 2):.1f}" for place, value in enumerate(values)]
    return "M" + "L".join(points) if len(points) > 1 else ""


def _x(place: int) -> float:
    return _LEFT + place * (WIDTH - _LEFT) / (_POINTS - 1)


def _y(value: float, top: float) -> float:
    room = HEIGHT - _TOP - _BOTTOM
    return _TOP + room - (min(value, top) / top * room if top > 0 else 0.0)


_GRID = (_y(1.0, 1.0), _y(0.5, 1.0), _y(0.0, 1.0))


def _stack(classes: dict[str, list[float | None]], top: float) -> list[ChartPart]:
    """An area for each class, on those before it."""
    below: list[float] = [0.0] * _POINTS
    shapes = []
    for name, values in classes.items():
        above = [low if value is None else low + value for low, value in zip(below, values, strict=True)]
        heights: list[float | None] = [
            None if value is None else high for value, high in zip(values, above, strict=True)
        ]
        shapes.append(_area(heights, below, top, f"{ANSWER_ROLES[name]} c{name}"))
        below = above
    return shapes


def _area(values: Sequence[float | None], below: Sequence[float] | None, top: float, css: str) -> ChartPart:
    parts = []
    for begin, end in _pieces(values):
        upper = [f"{_x(place):.1f} {_y(values[place] or 0.0, top):.1f}" for place in range(begin, end)]
        lower = [
            f"{_x(place):.1f} {_y(below[place] if below is not None else 0.0, top):.1f}"
            for place in reversed(range(begin, end))
        ]
        parts.append("M" + "L".join([*upper, *lower]) + "Z")
    return ChartPart("".join(parts), f"area {css}")


def _line(values: Sequence[float | None], top: float, css: str) -> ChartPart:
    parts = [
        "M" + "L".join(f"{_x(place):.1f} {_y(values[place] or 0.0, top):.1f}" for place in range(begin, end))
        for begin, end in _pieces(values)
        if end - begin > 1
    ]
    return ChartPart("".join(parts), f"line {css}")


def _pieces(values: Sequence[float | None]) -> list[tuple[int, int]]:
    """Where values follow each other without a gap."""
    pieces, begin = [], None
    for place, value in enumerate([*values, None]):
        if value is not None and begin is None:
            begin = place
        elif value is None and begin is not None:
            pieces.append((begin, place))
            begin = None
    return pieces


def _scale(top: float, describe: Callable[[float], str]) -> list[Label]:
    shown = ((top, _GRID[0]), (top / 2, _GRID[1])) if top > 0 else ()
    return [Label(_LEFT - 6, y + 4, describe(value), "scale") for value, y in (*shown, (0.0, _GRID[2]))]


def _time_labels(seconds: float, ends_at: float) -> list[Label]:
    form = "%H:%M:%S" if seconds < 600 else "%H:%M"
    labels = []
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        text = time.strftime(form, time.localtime(ends_at - seconds * (1 - share)))
        css = "start" if not tick else "end" if tick == _TICKS else "middle"
        labels.append(Label(round(_LEFT + share * (WIDTH - _LEFT), 1), HEIGHT - 3, text, css))
    return labels
