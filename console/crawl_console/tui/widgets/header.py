"""The first lines: the run, its progress, its health. What has no room is dropped from the right."""

from collections.abc import Iterable, Sequence

from crawl_console.crawl.source import PollResult
from crawl_console.format import Span, progress_bar, shorten_end, sparkline
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.words.health_line import health_spans, length
from crawl_console.words.run_line import Part, end_span, progress_parts, run_parts, run_state_span
from crawl_engine.judge.remaining import progress_of
from crawl_engine.model.run import Alarm

_NAMED_WIDTH = 60
"""Columns from which the first line begins with the program's name."""
_BARS = ((130, 30), (100, 12), (0, 5))
"""Columns from which the bar has so many cells."""
_LOW = 2


class Header(Canvas):
    """Draws `last_poll`. The app sets the attributes, then calls `redraw`."""

    last_poll: PollResult | None = None
    project = ""
    badges: tuple[Span, ...] = ()
    reload_note = ""
    alarms: Sequence[Alarm] = ()
    """All current alarms; acknowledged ones are only counted."""
    open_alarms: Sequence[Alarm] = ()
    """Those that are not acknowledged."""
    jump_key = ""
    """The key that goes to the next trouble."""
    pause_key = ""
    """The key that pauses the host that is chosen there; empty: orders are not taken."""

    def paint(self, width: int, height: int) -> list[Line]:
        """All three lines; in low windows the run and its health."""
        run, health = Line(self._run_line(width), "bar"), Line(self._health_line(width))
        return [run, Line(self._progress_line(width)), health] if height > _LOW else [run, health][:height]

    def _run_line(self, width: int) -> list[Span]:
        loud = len(self.open_alarms)
        quiet = f"✓ {len(self.alarms) - loud} " if len(self.alarms) > loud else ""
        count = f"! {loud} " if loud else ""
        spans = fit_parts(self._run_parts(width), width - len(count) - len(quiet))
        return [*spans, (" " * (width - length(spans) - len(count) - len(quiet)), ""), (quiet, "dim"), (count, "warn")]

    def _health_line(self, width: int) -> list[Span]:
        jump = f"{self.jump_key} jump " if self.open_alarms and self.jump_key and width >= _NAMED_WIDTH else ""
        run = self.last_poll.snapshot.run if self.last_poll is not None and self.last_poll.is_live else None
        ended = end_span(self.last_poll) if self.last_poll is not None else None
        end = [(f" {shorten_end(ended[0], width - len(jump) - 3)} ", ended[1])] if ended is not None else []
        hosts = run.judgement.hosts if run is not None else ()
        room = width - len(jump) - 1 - length(end)
        remedy = f"{self.jump_key} {self.pause_key} pauses it" if jump and self.pause_key else ""
        spans = [*end, *health_spans(hosts, self.open_alarms, room, remedy=remedy)]
        return [*spans, (" " * max(1, width - length(spans) - len(jump)), ""), (jump, "dim")]

    def _run_parts(self, width: int) -> list[Part]:
        names = f"  {self.project}" if self.project else ""
        parts: list[Part] = (
            [(False, [(" crawl-console", "title")]), (False, [(names, "strong")])] if width >= _NAMED_WIDTH else []
        )
        if self.last_poll is None:
            return [*parts, (True, [("  starting …", "dim")]), *((True, [("  ", ""), badge]) for badge in self.badges)]
        return parts + run_parts(self.last_poll, badges=self.badges, note=self.reload_note, names_width=width // 3)

    def _progress_line(self, width: int) -> list[Span]:
        poll = self.last_poll
        if poll is None or poll.snapshot.run is None:
            return []
        cells = next(cells for least, cells in _BARS if width >= least)
        share, level = progress_of(poll.snapshot, is_live=poll.is_live).share, run_state_span(poll)[1]
        parts: list[Part] = [
            (False, [(" " + progress_bar(share, cells), level)]),
            *progress_parts(poll, width - cells - 1, counts_files=width >= _BARS[1][0]),
            (False, [("  " + sparkline(poll.page_rates, 7), "accent")]),
        ]
        return fit_parts(parts, width)


def fit_parts(parts: Iterable[Part], width: int) -> list[Span]:
    """The spans of the parts that fit, in order. What does not stay is dropped from the right."""
    kept = list(parts)
    while sum(length(spans) for _, spans in kept) > width:
        place = next((place for place in reversed(range(len(kept))) if not kept[place][0]), None)
        if place is None:
            break
        del kept[place]
    return [span for _, spans in kept for span in spans]
