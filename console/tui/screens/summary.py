"""The summary of an ended run: totals, files, failures by reason, and how to resume."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from textual.app import ComposeResult

from console.format import format_clock, format_rate, format_size, plural
from console.tui.screens.base import View
from console.tui.state.source import DataSource, PollResult
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane
from console.tui.widgets.text_view import wrap_text
from engine.store.read.snapshot import OutputRow

_MAX_REASONS, _MAX_LISTED = 2_000, 8


class SummaryPane(Pane):
    last_poll: PollResult | None = None
    first_line = 0

    def __init__(self) -> None:
        super().__init__()
        self.reasons: Counter[str] = Counter()

    def paint(self, width: int, height: int) -> list[Line]:
        lines = self._lines(width)
        self.first_line = max(0, min(self.first_line, len(lines) - height))
        return lines[self.first_line : self.first_line + height]

    def _lines(self, width: int) -> list[Line]:
        poll = self.last_poll
        run = poll.snapshot.run if poll else None
        if poll is None or run is None:
            return []
        jobs = poll.snapshot.jobs
        done_role = "warn" if jobs["failed"] or poll.snapshot.warnings else "good"
        role = done_role if run.state == "DONE" else "bad"
        reason = f": {run.reason}" if run.reason else ""
        rate = jobs["done"] / run.seconds if run.seconds else 0.0
        resume = "" if run.state == "DONE" else "; `crawl-console run` resumes the run"
        hint = f"q quits, esc shows the screens{resume}"
        lines = [
            self.rule(width, f"run {run.id} {run.state}"),
            Line(((f"   {run.state}{reason}", role),)),
            Line(((f"   {format_clock(run.seconds)}", "strong"), (f"  {format_rate(rate)} pages/s", "text"))),
            Line(((f"   {hint}", "accent"),)),
            Line(()),
            Line((("   jobs   ", "dim"), *[s for name, n in jobs.items() if n for s in _job_spans(name, n)])),
        ]
        downloads = [s for name, n in poll.snapshot.files.items() if n for s in _job_spans(name, n)]
        if downloads:
            lines.append(Line((("   downloads  ", "dim"), *downloads)))
        for name, extracted in poll.snapshot.rows.items():
            rejected = poll.snapshot.rejected.get(name, 0)
            spans: list[Span] = [("   rows   ", "dim"), (f"{extracted} ", "strong"), (name, "text")]
            lines.append(Line((*spans, (f"  {rejected} rejected" if rejected else "", "warn"))))
        warnings = poll.snapshot.warnings
        lines += [Line((("   warning ", "warn"), (warning.text, "text"))) for warning in warnings[:_MAX_LISTED]]
        if len(warnings) > _MAX_LISTED:
            lines.append(Line(((f"   and {plural(len(warnings) - _MAX_LISTED, 'more warning')}", "warn"),)))
        lines.append(Line(()))
        lines += _output_lines(poll.snapshot.appenders, width)
        if self.reasons:
            lines += [Line(()), Line((("   failures by reason (4 shows each job)", "bad"),))]
            lines += [
                Line(((f"   {n:>6}  ", "strong"), (reason, "text")))
                for reason, n in self.reasons.most_common(_MAX_LISTED)
            ]
        dead = [n for n in poll.snapshot.nodes if n.state in ("DEAD", "FAILED")]
        if dead:
            lines += [Line(()), *(Line(((f"   {n.id} died: {n.reason}", "warn"),)) for n in dead[-_MAX_LISTED:])]
        return lines

    def action_down(self) -> None:
        self.first_line += 1
        self.redraw()

    def action_up(self) -> None:
        self.first_line -= 1
        self.redraw()


def _job_spans(name: str, number: int) -> list[Span]:
    return [(f"{number} ", "bad" if name == "failed" else "strong"), (f"{name}  ", "text")]


def _output_lines(outputs: Sequence[OutputRow], width: int) -> list[Line]:
    """Each folder, and its files below it."""
    lines: list[Line] = []
    folder = None
    for output in outputs:
        path = Path(output.path or output.name)
        if output.path and path.parent != folder:
            folder = path.parent
            parts = wrap_text(f"{folder}/", "text", max(20, width - 11))
            lines += [Line((("   files  " if not i else "          ", "dim"), part)) for i, part in enumerate(parts)]
        size = f"{plural(output.rows, 'row')}, {format_size(output.bytes)}B"
        lines.append(Line(((f"          {path.name if output.path else output.name:<24} ", "strong"), (size, "dim"))))
    return lines


class SummaryView(View):
    """Shown once when the run ends, and from the palette."""

    NAME = "nodes"
    SNAPSHOT_LIMIT = 20
    HINTS = (("4", "failed"), ("6", "log"), ("esc", "screens"))

    def compose(self) -> ComposeResult:
        self.summary = SummaryPane()
        yield self.summary

    def breadcrumb(self) -> str:
        return "Ended"

    def read(self, source: DataSource, run: int) -> list[str]:
        return source.failure_reasons(run, _MAX_REASONS)

    def show(self, poll: PollResult) -> None:
        self.summary.last_poll = poll
        if (reasons := self.take_data(poll)) is not None:
            self.summary.reasons = Counter(reasons)
        self.summary.redraw()
