"""Panels beside the node table: sequences, outputs, hosts, throughput, alarms."""

from collections.abc import Sequence
from typing import Any

from console.format import done_ratio, format_age, format_count, format_rate, progress_bar
from console.tui.state.alerts import Alarm
from console.tui.state.rates import Rates, pages_per_s, rows_per_s
from console.tui.state.source import PollResult
from console.tui.widgets.line_canvas import Line, Span, fit
from console.tui.widgets.line_table import Column, LineTable, Row
from console.tui.widgets.pane import Pane
from engine.store.read.snapshot import HostRow, OutputRow, SequenceRow

_JOB_COUNTERS = ("done", "failed", "skipped", "incomplete", "ready", "taken")


class SequencesTable(LineTable):
    """Lists sequences with their progress."""

    TITLE = "sequences"
    HAS_HEADING = False
    COLUMNS = (
        Column("SEQUENCE", 0),
        Column("PROGRESS", 14),
        Column("LEFT", 6, right=True),
        Column("RUN", 4, right=True),
    )
    EMPTY = "none yet"
    sequence_count = 0

    def title(self) -> str:
        """Return the title with the number of sequences."""
        return f"sequences {self.sequence_count}" if self.sequence_count else "sequences"

    def update_from(self, poll: PollResult) -> None:
        """Show the sequences of a poll; the busiest come first."""
        self.sequence_count = poll.snapshot.sequence_count
        self.show_filtered([_sequence_row(s) for s in poll.snapshot.sequences])


def _sequence_row(s: SequenceRow) -> Row:
    left = s.ready + s.delayed
    ratio = done_ratio({name: getattr(s, name) for name in _JOB_COUNTERS} | {"ready": left})
    name = f"{'‖ ' if s.paused else ''}{s.group} · {s.host}"
    progress = f"{progress_bar(ratio, 9)} {ratio * 100:3.0f}%"
    return Row(
        s.id,
        (
            (name, "warn" if s.paused else "text"),
            (progress, "good" if ratio >= 1 else "accent"),
            (format_count(left), "text"),
            (format_count(s.taken), "strong" if s.taken else "dim"),
        ),
        (name, ratio, left, s.taken),
        s,
    )


class OutputsPane(Pane):
    """Lists the outputs of the appender with rows, speed and backlog."""

    TITLE = "appender"

    def __init__(self, rates: Rates, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates
        self.outputs: Sequence[OutputRow] = ()

    def update_from(self, poll: PollResult) -> None:
        """Show the outputs of a poll."""
        self.outputs = poll.snapshot.appenders
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        """Draw one line per output."""
        note = ""
        if self.outputs:
            flush = self.outputs[0].flush_ms
            alive = self.outputs[0].pid is not None
            note = (f"last flush {flush:.1f} ms" if flush is not None else "no flush yet") if alive else "not running"
        lines = [self.rule(width, note=note)]
        if not self.outputs:
            return [*lines, Line((("   none yet", "dim"),))]
        name_width = max(8, width - 32)
        for output in self.outputs:
            backlog = "10k+" if output.backlog > 10_000 else str(output.backlog)
            speed = self.rates.outputs.get(output.name)
            lines.append(
                Line((
                    ("   " + fit(output.name, name_width), "text"),
                    (f"{format_count(output.rows):>7}", "strong"),
                    (f"{format_rate(speed.per_second if speed else 0):>8}/s", "accent"),
                    (f" +{backlog}", "warn" if output.backlog > 1000 or output.rebuilding else "dim"),
                    (" rebuilt" if output.rebuilding else "", "warn"),
                ))
            )  # fmt: skip
        return lines[:height]


class HostsPane(Pane):
    """Lists the hosts with requests in flight, waiting or backed off."""

    TITLE = "hosts"
    hosts: Sequence[HostRow] = ()

    def update_from(self, poll: PollResult) -> None:
        """Show the hosts of a poll: those in backoff first, then the busiest."""
        self.hosts = sorted(poll.snapshot.hosts, key=lambda h: (-(h.backoff or 0), -h.running, -h.waiting))
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        """Draw one line per host."""
        lines = [self.rule(width, f"hosts {len(self.hosts)}" if self.hosts else "hosts")]
        for host in self.hosts[: height - 1]:
            if host.backoff:
                state: Span = (f"↓ backs off {format_age(host.backoff)}", "warn")
            elif host.next_in and host.waiting:
                state = (f"◷ next {format_age(host.next_in)}", "text")
            elif host.running:
                state = (f"▶ {host.running} of {host.concurrency}", "good")
            else:
                state = ("● waits", "text") if host.waiting else ("○ idle", "dim")
            lines.append(Line((("   " + fit(host.host, max(8, width - 24)), "text"), state)))
        return lines


class ThroughputPane(Pane):
    """Shows pages and rows per second, and plots the pages of the last minutes."""

    TITLE = "throughput"

    def __init__(self, rates: Rates, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates
        self.last_poll: PollResult | None = None

    def update_from(self, poll: PollResult) -> None:
        """Show the rates of a poll."""
        self.last_poll = poll
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        """Draw the rule with the figures and the plot below it."""
        from console.tui.widgets.braille import braille_plot

        top = max(self.rates.recent_pages_per_s, default=0.0)
        pages = format_rate(pages_per_s(self.last_poll)) if self.last_poll else "-"
        rows = format_rate(rows_per_s(self.last_poll)) if self.last_poll else "-"
        lines = [self.rule(width, note=f"{pages} pg/s  {rows} rows/s  top {format_rate(top)}")]
        values = list(self.rates.recent_pages_per_s)[-(width - 4) * 2 :]
        return lines + [Line((("   " + text, "accent"),)) for text in braille_plot(values, width - 4, height - 1)]


class AlarmsPane(Pane):
    """Lists the current alarms."""

    TITLE = "alarms"
    alarms: Sequence[Alarm] = ()

    def line_count(self, width: int) -> int:
        """Return the number of lines the alarms take in a pane of that width."""
        return sum(-(-len(alarm.text) // max(10, width - 4)) for alarm in self.alarms)

    def paint(self, width: int, height: int) -> list[Line]:
        """Draw each alarm, wrapped."""
        lines = [self.rule(width, f"alarms {len(self.alarms)}" if self.alarms else "alarms")]
        if not self.alarms:
            return [*lines, Line((("   ✓ none", "good"),))]
        text_width = max(10, width - 4)
        for a in self.alarms:
            parts = [a.text[start : start + text_width] for start in range(0, len(a.text), text_width)]
            lines += [Line(((" ! " if not i else "   ", a.level), (part, a.level))) for i, part in enumerate(parts)]
        return lines[:height]
