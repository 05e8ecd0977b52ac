"""The host under the cursor: its answers, why its jobs wait, its newest errors, its rate and latency."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crawl_console.format import (
    Span,
    braille_plot,
    format_count,
    format_latency,
    format_rate,
    format_signal,
    format_time,
    shorten_line,
    shorten_name,
)
from crawl_console.tui.widgets.line_canvas import Canvas, Line, fit
from crawl_console.words.host_table import CLASS_ROLES
from crawl_console.words.job_lines import LEVEL_ROLES
from crawl_engine.model.host import STATUS_CLASSES
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.tables.run.events import Event

_STRIP_LINES = 4
_MAX_RATES, _RATE_SECONDS, _INTERVAL_POINTS = 240, 0.95, 2
_MIN_EVENTS = 4
"""So many events come before the strips and bars, if there is room for so many lines only."""


class HostMore(NamedTuple):
    """What is read of the host under the cursor: why its jobs wait, and its newest events. `at`: monotonic seconds."""

    host: str
    waits: tuple[str, ...]
    events: tuple[Event, ...]
    at: float


class HostDetails(Canvas):
    """Draws what there is room for."""

    row: HostRow | None = None
    more: HostMore | None = None

    def __init__(self) -> None:
        super().__init__()
        self._rates: dict[str, deque[float]] = {}
        """Pages a second of each host, once a second while the screen is shown."""
        self._rated_at = 0.0

    def add_rates(self, hosts: Iterable[HostRow], at: float) -> None:
        """Remember the rates of a poll. `at`: monotonic seconds."""
        if at - self._rated_at < _RATE_SECONDS:
            return
        self._rated_at = at
        for host in hosts:
            self._rates.setdefault(host.host, deque(maxlen=_MAX_RATES)).append(host.pages_per_s)

    def paint(self, width: int, height: int) -> list[Line]:
        row = self.row
        if row is None:
            return []
        more = self.more if self.more is not None and self.more.host == row.host else None
        lines = [Line((("─" * width, "dim"),)), Line(_answer_spans(row, width))]
        if row.content_signal:
            lines.append(Line((("   Content-Signal ", "dim"), (format_signal(row.content_signal), "text"))))
        if more is not None:
            waits = more.waits or (f"no job waits for {row.host}",)
            lines += [Line(((f"   {reason}", "text" if more.waits else "dim"),)) for reason in waits]
        strips, bars = self._plots(row, width), list(_bars(row, width))
        events = list(_event_lines(more.events, width)) if more is not None else []
        room = height - len(lines)
        first = max(min(_MIN_EVENTS, room), room - len(strips) - len(bars) - 3)
        for block in (events[:first], strips, bars):
            room = height - len(lines)
            if block and len(block) <= room:
                lines += [Line(()), *block] if len(block) < room else block
        return lines[:height]

    def _plots(self, row: HostRow, width: int) -> list[Line]:
        """Pages a second, and the latency of the last minute beside them."""
        rates = list(self._rates.get(row.host, ()))
        half = (width - 7) // 2
        known = [value for value in row.recent_p50 if value is not None]
        points = max(_INTERVAL_POINTS, 2 * half // max(1, len(row.recent_p50)))
        latencies = [value or 0.0 for value in row.recent_p50 for _ in range(points)]
        titles = (
            f"pages a second; top {format_rate(max(rates, default=0.0))}",
            f"latency p50, last minute; top {format_latency(max(known, default=None))}",
        )
        plots = [braille_plot(values, half, _STRIP_LINES) for values in (rates, latencies)]
        texts = [[fit(title, half) for title in titles], *zip(*plots, strict=True)]
        roles = ("dim", *("accent" for _ in range(_STRIP_LINES)))
        return [
            Line((("   ", ""), (f"{left}   {right}", role))) for (left, right), role in zip(texts, roles, strict=True)
        ]


def _answer_spans(row: HostRow, width: int) -> list[Span]:
    spans: list[Span] = [(f"   {shorten_name(row.host, max(12, width // 3))}", "strong")]
    for name in STATUS_CLASSES:
        if row.answers.get(name):
            shown = {"none": "no answer"}.get(name, name)
            spans += [(f"  {shown} ", "dim"), (format_count(row.answers[name]), CLASS_ROLES[name])]
    if row.operator_delay is not None:
        spans.append((f"  delay {row.operator_delay:g} s", "accent"))
    if row.operator_concurrency is not None:
        spans.append((f"  concurrency {row.operator_concurrency}", "accent"))
    return [*spans, ("  D defs' values", "dim")] if row.is_controlled else spans


def _event_lines(events: Sequence[Event], width: int) -> Iterator[Line]:
    """The newest first."""
    for event in events:
        text = shorten_line(event.text, width - 15)
        yield Line(((f"   {format_time(event.at)}  ", "dim"), (text, LEVEL_ROLES[event.level])))


def _bars(row: HostRow, width: int) -> Iterator[Line]:
    """Answers by class."""
    total = sum(row.answers.values())
    for name in STATUS_CLASSES:
        if count := row.answers.get(name):
            bar = "━" * max(1, round(count / total * (width - 40)))
            text = f"  {count:,}  {count / total:.1%}"
            yield Line(((f"   {name:<6}", "dim"), (bar, CLASS_ROLES[name]), (text, "text")))
