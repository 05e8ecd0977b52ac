"""How the run ended: totals, files with their paths, failures by reason, and how to go on."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from textual.app import ComposeResult

from console.format import format_clock, format_rate, format_size
from console.tui.screens.base import View
from console.tui.state.source import PollResult, ViewQuery
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane
from console.tui.widgets.text_view import wrap_text
from engine.store.read.snapshot import OutputRow

_MAX_REASONS, _MAX_LISTED = 2_000, 8


class SummaryPane(Pane):
    """The page of units."""

    last_poll: PollResult | None = None
    first_line = 0

    def __init__(self) -> None:
        super().__init__()
        self.reasons: Counter[str] = Counter()

    def paint(self, width: int, height: int) -> list[Line]:
        """As much of it as fits, from where it was scrolled to."""
        lines = self._lines(width)
        self.first_line = max(0, min(self.first_line, len(lines) - height))
        return lines[self.first_line : self.first_line + height]

    def _lines(self, width: int) -> list[Line]:
        look = self.last_poll
        run = look.snapshot.run if look else None
        if look is None or run is None:
            return []
        jobs = look.snapshot.jobs
        role = "good" if run.state == "DONE" and not jobs["failed"] else "warn" if run.state == "DONE" else "bad"
        because = f": {run.reason}" if run.reason else ""
        rate = jobs["done"] / run.seconds if run.seconds else 0.0
        on = "" if run.state == "DONE" else "; `crawl-console run` goes on where it stopped"
        hint = f"q leaves, esc shows the screens{on}"
        lines = [
            self.rule(width, f"run {run.id} {run.state}"),
            Line(((f"   {run.state}{because}", role),)),
            Line(((f"   {format_clock(run.seconds)}", "strong"), (f"  {format_rate(rate)} pages/s", "text"))),
            Line(((f"   {hint}", "accent"),)),
            Line(()),
            Line((("   jobs   ", "dim"), *[s for name, n in jobs.items() if n for s in _job_spans(name, n)])),
        ]
        for name, made in look.snapshot.rows.items():
            lost = look.snapshot.rejected.get(name, 0)
            told: list[Span] = [("   rows   ", "dim"), (f"{made} ", "strong"), (name, "text")]
            lines.append(Line((*told, (f"  {lost} rejected" if lost else "", "warn"))))
        lines.append(Line(()))
        lines += _output_lines(look.snapshot.appenders, width)
        if self.reasons:
            lines += [Line(()), Line((("   failed, by reason (4 shows each)", "bad"),))]
            lines += [
                Line(((f"   {n:>6}  ", "strong"), (why, "text"))) for why, n in self.reasons.most_common(_MAX_LISTED)
            ]
        dead = [n for n in look.snapshot.nodes if n.state in ("DEAD", "FAILED")]
        if dead:
            lines += [Line(()), *(Line(((f"   {n.id} died: {n.reason}", "warn"),)) for n in dead[-_MAX_LISTED:])]
        return lines

    def action_down(self) -> None:
        """A line on."""
        self.first_line += 1
        self.redraw()

    def action_up(self) -> None:
        """A line back."""
        self.first_line -= 1
        self.redraw()


def _job_spans(name: str, number: int) -> list[Span]:
    return [(f"{number} ", "bad" if name == "failed" else "strong"), (f"{name}  ", "text")]


def _output_lines(outputs: Sequence[OutputRow], width: int) -> list[Line]:
    """Each folder in full, and below it its files."""
    lines: list[Line] = []
    folder = None
    for output in outputs:
        path = Path(output.path)
        if path.parent != folder:
            folder = path.parent
            parts = wrap_text(f"{folder}/", "text", max(20, width - 11))
            lines += [Line((("   files  " if not i else "          ", "dim"), part)) for i, part in enumerate(parts)]
        told = f"{output.rows} rows, {format_size(output.bytes)}B"
        lines.append(Line(((f"          {path.name:<24} ", "strong"), (told, "dim"))))
    return lines


class SummaryView(View):
    """Shown once, when the run is over; also in the palette."""

    NAME = "nodes"
    SNAPSHOT_LIMIT = 20
    HINTS = (("4", "failed"), ("6", "log"), ("esc", "screens"), ("?", "keys"), ("q", "quit"))

    def compose(self) -> ComposeResult:
        """The page."""
        self.summary = SummaryPane()
        yield self.summary

    def breadcrumb(self) -> str:
        """Ended."""
        return "Ended"

    def view_query(self) -> ViewQuery | None:
        """Why jobs failed."""
        return lambda source, look: source.failure_reasons(look.run.seq, _MAX_REASONS) if look.run else []

    def show(self, look: PollResult) -> None:
        """The last units."""
        self.summary.last_poll = look
        if look.requester is self and look.view_data is not None:
            self.summary.reasons = Counter(look.view_data)
        self.summary.redraw()
