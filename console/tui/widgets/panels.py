"""Panels beside the node table: sequences, outputs, hosts, throughput, alarms."""

from collections.abc import Sequence
from typing import Any

from console.alarms import Alarm
from console.format import (
    done_ratio,
    format_count,
    format_latency,
    format_rate,
    format_size,
    progress_bar,
    shorten_name,
)
from console.tui.state.rates import Rates, pages_per_s, rows_per_s
from console.tui.state.source import PollResult
from console.tui.widgets.columns import Column
from console.tui.widgets.host_spans import failed_span, latency_trend, next_span
from console.tui.widgets.line_canvas import Line
from console.tui.widgets.line_table import LineTable, Row
from console.tui.widgets.pane import Pane
from console.tui.widgets.text_view import wrap_text
from engine.store.read.host_rows import HostRow
from engine.store.read.snapshot import OutputRow, SequenceRow

_TREND_CELLS = 6
_JOB_COUNTERS = ("done", "failed", "skipped", "incomplete", "ready", "taken")


class SequencesTable(LineTable):
    TITLE = "sequences"
    HAS_HEADING = False
    COLUMNS = (
        Column("SEQUENCE", 0),
        Column("PROGRESS", 14),
        Column("LEFT", 6, right=True),
        Column("RUN", 4, right=True),
    )
    EMPTY = "none yet"
    RULE_HEADINGS = f"{'PROGRESS':<14} {'LEFT':>6} {'RUN':>4} "
    sequence_count = 0

    def title(self) -> str:
        return f"sequences {self.sequence_count}" if self.sequence_count else "sequences"

    def update_from(self, poll: PollResult) -> None:
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
    TITLE = "output"

    def __init__(self, rates: Rates, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates
        self.outputs: Sequence[OutputRow] = ()

    def update_from(self, poll: PollResult) -> None:
        self.outputs = poll.snapshot.appenders
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        note = ""
        if self.outputs:
            flush = self.outputs[0].flush_ms
            note = "not running" if self.outputs[0].pid is None else "" if flush is None else f"flush {flush:.1f} ms"
        headings = f"{'ROWS':>7}{'ROWS/S':>8}{'BYTES/S':>9}{'BACKLOG':>9}"
        lines = [self.rule(width, note=note, headings=headings)]
        if not self.outputs:
            return [*lines, Line((("   none yet", "dim"),))]
        name_width = max(6, width - 3 - len(headings))
        for output in self.outputs:
            backlog = "rebuilt" if output.rebuilding else "10k+" if output.backlog > 10_000 else str(output.backlog)
            backlog_style = "warn" if output.backlog > 1000 or output.rebuilding else "dim"
            if output.error:
                backlog_style = "bad"
            rows, size = self.rates.outputs.get(output.name), self.rates.sizes.get(output.name)
            lines.append(
                Line((
                    (f"   {shorten_name(output.name, name_width):<{name_width}}", "text"),
                    (f"{format_count(output.rows):>7}", "strong"),
                    (f"{format_rate(rows.per_second if rows else 0):>8}", "accent"),
                    (f"{format_size(size.per_second if size else 0):>9}", "dim"),
                    (f"{backlog:>9}", backlog_style),
                ))
            )  # fmt: skip
        return lines[:height]


class HostsPane(Pane):
    TITLE = "hosts"
    hosts: Sequence[HostRow] = ()

    def update_from(self, poll: PollResult) -> None:
        """Show the hosts of a poll: those in backoff first, then the busiest."""
        self.hosts = sorted(poll.snapshot.hosts, key=lambda h: (-(h.backoff or 0), -h.running, -h.waiting))
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        headings = f"{'DONE':>7}{'ERR%':>6}{'P50':>6}{'P95':>6}  {'TREND':<{_TREND_CELLS}}{'NEXT':>9}"
        lines = [self.rule(width, f"hosts {len(self.hosts)}" if self.hosts else "hosts", headings=headings)]
        name_width = max(6, width - 3 - len(headings))
        for host in self.hosts[: height - 1]:
            failed, following = failed_span(host), next_span(host)
            lines.append(
                Line((
                    (f"   {shorten_name(host.host, name_width):<{name_width}}", "text"),
                    (f"{format_count(host.pages):>7}", "strong"),
                    (f"{failed[0]:>6}", failed[1]),
                    (f"{format_latency(host.p50):>6}{format_latency(host.p95):>6}", "text"),
                    (f"  {latency_trend(host, _TREND_CELLS):<{_TREND_CELLS}}", "accent"),
                    (f"{following[0]:>9}", following[1]),
                ))
            )  # fmt: skip
        return lines


class ThroughputPane(Pane):
    TITLE = "throughput"

    def __init__(self, rates: Rates, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates
        self.last_poll: PollResult | None = None

    def update_from(self, poll: PollResult) -> None:
        self.last_poll = poll
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        from console.tui.widgets.chart import braille_plot

        pages = format_rate(pages_per_s(self.last_poll)) if self.last_poll else "-"
        rows = format_rate(rows_per_s(self.last_poll)) if self.last_poll else "-"
        lines = [self.rule(width, note=f"{pages} pg/s  {rows} rows/s")]
        values = list(self.rates.recent_pages_per_s)[-(width - 4) * 2 :]
        return lines + [Line((("   " + text, "accent"),)) for text in braille_plot(values, width - 4, height - 1)]


class AlarmsPane(Pane):
    TITLE = "alarms"
    alarms: Sequence[Alarm] = ()

    def line_count(self, width: int) -> int:
        return sum(len(wrap_text(alarm.text, "", max(10, width - 4))) for alarm in self.alarms)

    def paint(self, width: int, height: int) -> list[Line]:
        lines = [self.rule(width, f"alarms {len(self.alarms)}" if self.alarms else "alarms")]
        if not self.alarms:
            return [*lines, Line((("   ✓ none", "good"),))]
        text_width = max(10, width - 4)
        for a in self.alarms:
            parts = wrap_text(a.text, a.level, text_width)
            lines += [Line(((" ! " if not i else "   ", a.level), part)) for i, part in enumerate(parts)]
        return lines[:height]
