"""The header's two lines, run and progress. Parts that do not fit are left out by importance."""

from collections.abc import Iterable, Sequence

from console.format import (
    count_ended,
    describe_eta,
    done_ratio,
    format_count,
    format_eta,
    format_rate,
    plural,
    progress_bar,
    sparkline,
)
from console.tui.state.rates import pages_per_s, rows_per_s
from console.tui.state.source import PollResult
from console.tui.widgets.line_canvas import Canvas, Line, Span
from engine.model.run import NO_ETA, Stage
from engine.store.read.data_warnings import FAILING_SHARE

_WIDE = 120
"""Columns from which the bar is long."""
_NARROW_BAR, _WIDE_BAR = 8, 30
_GOOD_STATES = {"RUNNING", "DONE", "CRAWL_COMPLETE"}
_STAGE_LABELS = {
    "STOPPING_NODES_GRACEFUL": "STOPPING nodes",
    "STOPPING_APPENDER_GRACEFUL": "STOPPING appender",
    "STOPPING_NODES_FORCEFUL": "FORCING nodes",
    "STOPPING_APPENDER_FORCEFUL": "FORCING appender",
}


class Header(Canvas):
    """Draws `last_poll`. The app sets the attributes, then calls `redraw`."""

    last_poll: PollResult | None = None
    project = ""
    badges: tuple[Span, ...] = ()
    reload_note = ""
    alarm_count = 0
    recent_pages_per_s: Sequence[float] = ()

    def paint(self, width: int, height: int) -> list[Line]:
        """Draw two lines, or one in a low window."""
        return [Line(fit_parts(self._run_parts(), width), "bar"), Line(fit_parts(self._job_parts(width), width))][
            :height
        ]

    def _run_parts(self) -> list[tuple[int, list[Span]]]:
        parts: list[tuple[int, list[Span]]] = [(7, [(" crawl-console", "title")])]
        if self.project:
            parts.append((6, [(f"  {self.project}", "strong")]))
        run = self.last_poll.snapshot.run if self.last_poll else None
        if self.last_poll is None or run is None:
            parts.append((0, [("  no run yet" if self.last_poll else "  loading…", "dim")]))
        else:
            word, role = run_state_span(self.last_poll)
            parts.append((0, [(f"  {word}", role)]))
            if self.alarm_count:
                parts.append((5, [(f"  ! {plural(self.alarm_count, 'alarm')}", "warn")]))
            if run.paused:
                parts.append((1, [(f"  ‖ PAUSED {run.paused.replace('operator', '').strip(', ')}".rstrip(), "warn")]))
            if (held := self._describe_paused()) and not run.paused:
                parts.append((2, [(f"  ‖ {held} paused", "warn")]))
            parts.append((3, [(f"  run {run.id}", "text")]))
            owner = f"supervisor {self.last_poll.supervisor_pid}" if self.last_poll.supervisor_pid else "no supervisor"
            parts.append((4, [(f"  {owner}", "text" if self.last_poll.supervisor_pid else "bad")]))
            problems = len(self.last_poll.snapshot.defs_problems)
            saved = self.last_poll.waiting_defs is not None
            defs_state: Span = (" saved, not published", "warn") if saved else (" ok", "good")
            if problems:
                defs_state = (f" {plural(problems, 'problem')}", "bad")
            parts.append((2, [(f"  defs v{run.defs_version or '-'}", "text"), defs_state]))
            if (reextraction := self.last_poll.snapshot.reextraction) is not None:
                done, pending = reextraction
                parts.append((2, [(f"  re-extracting {done} of {done + pending}", "accent")]))
            if self.reload_note:
                parts.append((8, [(f", {self.reload_note}", "dim")]))
        parts += [(1, [("  ", ""), badge]) for badge in self.badges]
        return parts

    def _describe_paused(self) -> str:
        assert self.last_poll is not None
        snapshot = self.last_poll.snapshot
        counts = ((snapshot.paused_sequences, "sequence"), (snapshot.paused_hosts, "host"))
        return ", ".join(plural(count, noun) for count, noun in counts if count)

    def _job_parts(self, width: int) -> list[tuple[int, list[Span]]]:
        if self.last_poll is None or self.last_poll.snapshot.run is None:
            return []
        snapshot, run = self.last_poll.snapshot, self.last_poll.snapshot.run
        runs_on = self.last_poll.supervisor_pid is not None and run.state.is_open and run.stage == Stage.RUNNING
        eta = run.eta if runs_on else NO_ETA
        ended, total = count_ended(snapshot.jobs), sum(snapshot.jobs.values())
        grows = "≥ " if run.state != "DONE" and not eta.exact else ""
        bar = progress_bar(done_ratio(snapshot.jobs), _WIDE_BAR if width >= _WIDE else _NARROW_BAR)
        bad_role = "bad" if snapshot.bad_share >= FAILING_SHARE else "text"
        parts: list[tuple[int, list[Span]]] = [
            (0, [(" " + bar, "good")]),
            (0, [(f" {ended:,}", "strong"), (f" / {grows}{total:,}", "text")]),
            (1, [("  " + format_rate(pages_per_s(self.last_poll)), "strong"), (" pg/s", "dim")]),
            (5, [(" " + sparkline(self.recent_pages_per_s, 7), "accent")]),
            (1, [("  bad answers ", "dim"), (f"{snapshot.bad_share:.1%}", bad_role)]),
            (2, [("  blocked ", "dim"), (format_count(snapshot.blocked), "warn" if snapshot.blocked else "text")]),
            (8, [("  running ", "dim"), (format_count(snapshot.running), "text")]),
            (9, [("  retry ", "dim"), (format_count(snapshot.delayed), "warn" if snapshot.delayed else "text")]),
            (4, [("  " + format_rate(rows_per_s(self.last_poll)), "strong"), (" rows/s", "dim")]),
            (1, [("  ETA ", "dim"), (format_eta(eta), "strong")]),
            (3, [(describe_eta(eta).removeprefix(format_eta(eta)), "dim")]),
        ]
        return parts


def run_state_span(poll: PollResult) -> Span:
    run = poll.snapshot.run
    if run is None:
        return "no run", "dim"
    stage = str(run.stage)
    if run.state.is_open and poll.supervisor_pid is None:
        return ("RESUMABLE", "warn") if stage == Stage.SHUTDOWN_COMPLETE else ("SUPERVISOR LOST", "bad")
    word = _STAGE_LABELS.get(stage, stage) if run.state.is_open and stage != "RUNNING" else str(run.state)
    if run.state.is_open and stage == "RUNNING":
        word = {"SEEDING": "SEEDING", "DRAINING": "DRAINING"}.get(str(run.state), "RUNNING")
    return word, "good" if word in _GOOD_STATES else "bad" if word in ("FAILED", "KILLED") else "warn"


def fit_parts(parts: Iterable[tuple[int, list[Span]]], width: int) -> list[Span]:
    """Return the spans of the parts that fit, in order; the highest rank number is dropped first."""
    kept = list(parts)
    while kept and sum(len(text) for _, spans in kept for text, _ in spans) > width:
        kept.remove(max(kept, key=lambda part: part[0]))
    return [span for _, spans in kept for span in spans]
