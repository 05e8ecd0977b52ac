"""The first lines: the run, its progress, its health. What has no room is dropped from the right."""

from collections.abc import Iterable, Sequence

from console.format import (
    count_ended,
    describe_seeding,
    done_ratio,
    eta_bound,
    eta_obstacle,
    format_clock,
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
HOST_TROUBLE = {
    "host-resting": ("◌", "rest", "warn"),
    "host-silent": ("✗", "silent", "bad"),
    "host-refused": ("⊘", "refused", "bad"),
}
"""By code of an alarm about hosts: its mark, word and role."""
_LOW, _MIN_TEXT, _MARGIN = 2, 12, 24
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

    recent_pages_per_s: Sequence[float] = ()

    def paint(self, width: int, height: int) -> list[Line]:
        """All three lines; in low windows the run and its health."""
        run, health = Line(self._run_line(width), "bar"), Line(self._health_line(width))
        return [run, Line(self._progress_line(width)), health] if height > _LOW else [run, health][:height]

    def _run_line(self, width: int) -> list[Span]:
        loud = len(self.open_alarms)
        quiet = f"✓ {len(self.alarms) - loud} " if len(self.alarms) > loud else ""
        count = f"! {loud} " if loud else ""
        spans = fit_parts(self._run_parts(width), width - len(count) - len(quiet))
        return [*spans, (" " * (width - _length(spans) - len(count) - len(quiet)), ""), (quiet, "dim"), (count, "warn")]

    def _health_line(self, width: int) -> list[Span]:
        """How the hosts are, and the worst of all other trouble; its text gives way to the counts of the hosts."""
        others = [alarm for alarm in self.open_alarms if alarm.code not in HOST_TROUBLE]
        hosts = self._host_spans(named=True)
        if others and _length(hosts) + len(others[0].text) > width - _MARGIN:
            hosts = self._host_spans(named=False)
        more = f"  (+{len(others) - 1} more: A)" if len(others) > 1 else ""
        jump = f"{self.jump_key} jump " if self.open_alarms and self.jump_key and width >= _NAMED_WIDTH else ""
        room = width - _length(hosts) - len(more) - len(jump) - 4
        first: list[Span] = []
        if others:
            worst = others[0]
            text = worst.text if len(worst.text) <= room else worst.text[: max(_MIN_TEXT, room) - 1] + "…"
            mark = "✗" if worst.level == "bad" else "!"
            first = [
                (f" {mark} ", "alarm" if worst.level == "bad" else "warn"),
                (f"{text}", worst.level),
                (more, "dim"),
            ]
        spans = [*first, *hosts] if others and others[0].level == "bad" else [*hosts, *first]
        return [*spans, (" " * max(1, width - _length(spans) - len(jump)), ""), (jump, "dim")]

    def _host_spans(self, *, named: bool) -> list[Span]:
        """The hosts that are well, and those with each trouble; with `named` the only one by its name."""
        spans: list[Span] = []
        poll = self.last_poll
        if poll is None or poll.snapshot.run is None or poll.supervisor_pid is None:
            return []
        troubled = 0
        for code, (mark, word, role) in HOST_TROUBLE.items():
            troubled += sum(alarm.count for alarm in self.alarms if alarm.code == code)
            alarms = [alarm for alarm in self.open_alarms if alarm.code == code]
            count = sum(alarm.count for alarm in alarms)
            if named and len(alarms) == 1 and alarms[0].host:
                spans.append((f" {mark} {alarms[0].text} ", role))
            elif count:
                spans.append((f" {mark} {count:,} {word} ", role))
        well = poll.snapshot.host_count - troubled
        return [(f" ● {plural(well, 'host')} ok ", "good"), *spans] if well > 0 else spans

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
        is_running = poll.supervisor_pid is not None and run.state.is_open and run.stage == Stage.RUNNING
        ended, total = count_ended(snapshot.jobs), sum(snapshot.jobs.values())
        more = "≥ " if run.state != "DONE" and not (is_running and run.eta.exact) else ""
        cells = next(cells for least, cells in _BARS if width >= least)
        files = sum(bool(output.path) for output in snapshot.appenders) if width >= _BARS[1][0] else 0
        rows = f" rows/s → {plural(files, 'file')}" if files else " rows/s"
        parts: list[Part] = [
            (False, [(" " + progress_bar(done_ratio(snapshot.jobs), cells), "good")]),
            (False, [(f" {ended:,}", "strong"), (f" / {more}{total:,}", "text")]),
            (False, [("  " + format_rate(pages_per_s(poll)), "strong"), (" pg/s", "dim")]),
            (True, [("  " + format_rate(rows_per_s(poll)), "strong"), (rows, "dim")]),
        ]
        if snapshot.appenders:
            parts.append((True, [("  backlog ", "dim"), backlog_span(snapshot.appenders)]))
        if is_running:
            growth = run.rates.get("queue_per_s", 0.0)
            if growth >= 1:
                parts.append((False, [("  queue ", "dim"), (f"▲ +{format_rate(growth)}/s", "warn")]))
            if obstacle := eta_obstacle(run.eta):
                parts.append((False, [("  ETA ", "dim"), ("cannot say", "warn")]))
                parts.append((False, [(f": {obstacle}", "warn")]))
            else:
                parts.append((False, [("  ETA ", "dim"), (format_eta(run.eta), "strong")]))
                parts.append((False, [(f" {eta_bound(run.eta)}", "dim")]))
        bad_role = "bad" if snapshot.bad_share >= FAILING_SHARE else "text"
        parts += [
            (False, [("  bad answers ", "dim"), (f"{snapshot.bad_share:.1%}", bad_role)]),
            (False, [("  blocked ", "dim"), (format_count(snapshot.blocked), "warn" if snapshot.blocked else "text")]),
            (False, [("  running ", "dim"), (format_count(snapshot.running), "text")]),
            (False, [("  " + sparkline(self.recent_pages_per_s, 7), "accent")]),
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


def _length(spans: Iterable[Span]) -> int:
    return sum(len(text) for text, _ in spans)


def fit_parts(parts: Iterable[Part], width: int) -> list[Span]:
    """The spans of the parts that fit, in order. What does not stay is dropped from the right."""
    kept = list(parts)
    while sum(_length(spans) for _, spans in kept) > width:
        place = next((place for place in reversed(range(len(kept))) if not kept[place][0]), None)
        if place is None:
            break
        del kept[place]
    return [span for _, spans in kept for span in spans]
