"""The first lines: the run, its progress, its health. What has no room is dropped from the right."""

from collections.abc import Iterable, Sequence

from console.crawl.source import PollResult
from console.format import (
    describe_seeding,
    eta_bound,
    eta_obstacle,
    format_clock,
    format_count,
    format_eta,
    format_rate,
    plural,
    progress_bar,
    shorten_end,
    sparkline,
)
from console.tui.widgets.health_line import health_spans, length
from console.tui.widgets.line_canvas import Canvas, Line, Span
from engine.judge.rates import speed_of
from engine.judge.remaining import progress_of
from engine.model.run import Alarm, Stage
from engine.store.read.data_warnings import FAILING_SHARE
from engine.store.read.snapshot import OutputRow

_NAMED_WIDTH = 60
"""Columns from which the first line begins with the program's name."""
_BARS = ((130, 30), (100, 12), (0, 5))
"""Columns from which the bar has so many cells."""
_GOOD_STATES = {"RUNNING", "DONE", "CRAWL_COMPLETE"}
_STAGE_LABELS = {
    "STOPPING_NODES_GRACEFUL": "STOPPING nodes",
    "STOPPING_APPENDER_GRACEFUL": "STOPPING appender",
    "STOPPING_NODES_FORCEFUL": "FORCING nodes",
    "STOPPING_APPENDER_FORCEFUL": "FORCING appender",
}
_LOW, _MIN_REASON = 2, 12
_MAX_BACKLOG = 10_000
"""A snapshot counts no more pending rows."""

Part = tuple[bool, list[Span]]
"""Whether it stays when room is short, and its spans."""


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
        spans = health_spans(run.judgement.hosts if run is not None else (), self.open_alarms, width - len(jump) - 1)
        return [*spans, (" " * max(1, width - length(spans) - len(jump)), ""), (jump, "dim")]

    def _run_parts(self, width: int) -> list[Part]:
        names = f"  {self.project}" if self.project else ""
        parts: list[Part] = (
            [(False, [(" crawl-console", "title")]), (False, [(names, "strong")])] if width >= _NAMED_WIDTH else []
        )
        run = self.last_poll.snapshot.run if self.last_poll else None
        if self.last_poll is None or run is None:
            parts.append((True, [("  no run yet" if self.last_poll else "  starting …", "dim")]))
            return parts + [(True, [("  ", ""), badge]) for badge in self.badges]
        snapshot = self.last_poll.snapshot
        word, role = run_state_span(self.last_poll)
        parts.append((True, [(f"  {word}", role), (f" {format_clock(run.seconds)}", "text")]))
        if run.paused:
            parts.append((True, [(f"  ‖ PAUSED {run.paused.replace('operator', '').strip(', ')}".rstrip(), "warn")]))
        parts += [(True, [("  ", ""), badge]) for badge in self.badges]
        if (held := self._describe_paused()) and not run.paused:
            parts.append((True, [(f"  ‖ {held} paused", "warn")]))
            if names := ", ".join(snapshot.paused_names):
                parts.append((False, [(f": {shorten_end(names, width // 3)}", "warn")]))
        parts.append((False, [(f"  run {run.id}", "text")]))
        problems = len(snapshot.defs_problems)
        saved = self.last_poll.waiting_defs is not None
        defs_state: Span = (" saved, not published", "warn") if saved else (" ok", "good")
        if problems:
            defs_state = (f" {plural(problems, 'problem')}", "bad")
        parts.append((False, [(f"  defs v{run.defs_version or '-'}", "text"), defs_state]))
        if snapshot.seeding is not None:
            parts.append((False, [(f"  {describe_seeding(snapshot.seeding)}", "accent")]))
        if snapshot.reextraction is not None:
            done, pending = snapshot.reextraction
            parts.append((False, [(f"  re-extracting {done} of {done + pending}", "accent")]))
        if self.reload_note:
            parts.append((False, [(f", {self.reload_note}", "dim")]))
        return parts

    def _describe_paused(self) -> str:
        assert self.last_poll is not None
        snapshot = self.last_poll.snapshot
        counts = ((snapshot.paused_sequences, "sequence"), (snapshot.paused_hosts, "host"))
        return ", ".join(plural(count, noun) for count, noun in counts if count)

    def _progress_line(self, width: int) -> list[Span]:
        poll = self.last_poll
        if poll is None or poll.snapshot.run is None:
            return []
        snapshot, run = poll.snapshot, poll.snapshot.run
        is_running = poll.is_live and run.state.is_open and run.stage == Stage.RUNNING
        progress, speed = progress_of(snapshot, is_live=poll.is_live), speed_of(snapshot, is_live=poll.is_live)
        more = "" if progress.exact else "≥ "
        mean = " mean" if speed.is_mean else ""
        cells = next(cells for least, cells in _BARS if width >= least)
        files = sum(bool(output.path) for output in snapshot.appenders) if width >= _BARS[1][0] else 0
        rows = f" rows/s → {plural(files, 'file')}" if files else " rows/s"
        parts: list[Part] = [
            (False, [(" " + progress_bar(progress.share, cells), "good")]),
            (False, [(f" {progress.ended:,}", "strong"), (f" / {more}{progress.total:,}", "text")]),
            (False, [("  " + format_rate(speed.pages_per_s), "strong"), (f" pg/s{mean}", "dim")]),
            (True, [("  " + format_rate(speed.rows_per_s), "strong"), (rows, "dim")]),
        ]
        if snapshot.appenders:
            parts.append((True, [("  backlog ", "dim"), backlog_span(snapshot.appenders)]))
        if is_running:
            growth = run.judgement.queue_per_s
            if growth >= 1:
                parts.append((False, [("  queue ", "dim"), (f"▲ +{format_rate(growth)}/s", "warn")]))
            obstacle = eta_obstacle(run.eta)
            end: Span = ("cannot say", "warn") if obstacle else (format_eta(run.eta), "strong")
            reason: Span = (f": {obstacle}", "warn") if obstacle else (f" {eta_bound(run.eta)}", "dim")
            parts.append((False, [("  ETA ", "dim"), end]))
            room = width - sum(length(spans) for _, spans in parts)
            if room >= _MIN_REASON:
                parts.append((False, [(shorten_end(reason[0], room), reason[1])]))
        bad_role = "bad" if snapshot.bad_share >= FAILING_SHARE else "text"
        parts += [
            (False, [("  bad answers ", "dim"), (f"{snapshot.bad_share:.1%}", bad_role)]),
            (False, [("  blocked ", "dim"), (format_count(snapshot.blocked), "warn" if snapshot.blocked else "text")]),
            (False, [("  running ", "dim"), (format_count(snapshot.running), "text")]),
            (False, [("  " + sparkline(poll.page_rates, 7), "accent")]),
        ]
        return fit_parts(parts, width)


def backlog_span(outputs: Sequence[OutputRow]) -> Span:
    """The rows that the files still lack."""
    backlog = sum(output.backlog for output in outputs)
    text = f"{_MAX_BACKLOG // 1000}k+" if backlog > _MAX_BACKLOG else f"{backlog:,}"
    if any(output.error for output in outputs):
        return text, "bad"
    return text, "warn" if backlog > 1000 or any(output.rebuilding for output in outputs) else "text"


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


def fit_parts(parts: Iterable[Part], width: int) -> list[Span]:
    """The spans of the parts that fit, in order. What does not stay is dropped from the right."""
    kept = list(parts)
    while sum(length(spans) for _, spans in kept) > width:
        place = next((place for place in reversed(range(len(kept))) if not kept[place][0]), None)
        if place is None:
            break
        del kept[place]
    return [span for _, spans in kept for span in spans]
