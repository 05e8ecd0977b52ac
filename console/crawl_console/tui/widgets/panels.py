"""Panels of the Nodes screen: sequences, outputs, hosts, alarms, and the plot of pages a second."""

from collections.abc import Sequence

from crawl_console.crawl.source import PollResult
from crawl_console.format import (
    Span,
    format_latency,
    format_rate,
)
from crawl_console.tui.widgets.line_canvas import Line, fit
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.pane import ListPane, Pane
from crawl_console.tui.widgets.text_view import wrap_text
from crawl_console.words.host_spans import bad_span, count_span, host_rank, latency_trend, next_span
from crawl_console.words.result_lines import OUTPUT_HEADINGS, output_spans
from crawl_console.words.sequence_table import SEQUENCE_COLUMNS, sequence_rows
from crawl_engine.judge.rates import speed_of
from crawl_engine.model.run import Alarm
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import OutputRow

_TREND_CELLS = 6


class SequencesTable(LineTable):
    TITLE = "sequences"
    HAS_HEADING = False
    COLUMNS = SEQUENCE_COLUMNS
    EMPTY = "none yet"
    RULE_HEADINGS = "".join(f"{fit(each.title, each.width, right=each.right)} " for each in SEQUENCE_COLUMNS[1:])
    sequence_count = 0

    def title(self) -> str:
        return f"sequences {self.sequence_count}" if self.sequence_count else "sequences"

    def update_from(self, poll: PollResult) -> None:
        self.sequence_count = poll.snapshot.sequence_count
        self.show_filtered(sequence_rows(poll))


class OutputsPane(ListPane):
    TITLE = "output"
    HEADINGS = OUTPUT_HEADINGS
    EMPTY = "none yet"

    def update_from(self, poll: PollResult) -> None:
        self.show(poll.snapshot.appenders)

    def note(self) -> str:
        if not self.items:
            return ""
        flush = self.items[0].flush_ms
        return "not running" if self.items[0].pid is None else "" if flush is None else f"flush {flush:.1f} ms"

    def spans(self, item: OutputRow) -> tuple[str, Sequence[Span]]:
        return output_spans(item)


class HostsPane(ListPane):
    _is_live = False
    HEADINGS = f"{'DONE':>7}{'BAD%':>6}{'P50':>6}{'P95':>6}  {'TREND':<{_TREND_CELLS}}{'NEXT':>9}"

    host_count = 0

    def title(self) -> str:
        return f"hosts {self.host_count:,}" if self.host_count else "hosts"

    def update_from(self, poll: PollResult) -> None:
        self._is_live = poll.supervisor_pid is not None
        self.host_count = max(poll.snapshot.host_count, len(poll.snapshot.hosts))
        self.show(sorted(poll.snapshot.hosts, key=host_rank))

    def spans(self, item: HostRow) -> tuple[str, Sequence[Span]]:
        done, bad, following = count_span(item.pages, "strong"), bad_span(item), next_span(item, is_live=self._is_live)
        return item.host, (
            (f"{done[0]:>7}", done[1]),
            (f"{bad[0]:>6}", bad[1]),
            (f"{format_latency(item.p50):>6}{format_latency(item.p95):>6}", "text"),
            (f"  {latency_trend(item, _TREND_CELLS):<{_TREND_CELLS}}", "dim"),
            (f"{following[0]:>9}", following[1]),
        )


class ThroughputPane(Pane):
    TITLE = "throughput"

    last_poll: PollResult | None = None

    def update_from(self, poll: PollResult) -> None:
        self.last_poll = poll
        self.redraw()

    def paint(self, width: int, height: int) -> list[Line]:
        from crawl_console.format import braille_plot

        poll = self.last_poll
        if poll is None:
            return [self.rule(width)]
        speed = speed_of(poll.snapshot, is_live=poll.is_live)
        mean = "mean " if speed.is_mean else ""
        note = f"{mean}{format_rate(speed.pages_per_s)} pg/s  {format_rate(speed.rows_per_s)} rows/s"
        lines = [self.rule(width, note=note)]
        values = poll.page_rates[-(width - 4) * 2 :]
        return lines + [Line((("   " + text, "accent"),)) for text in braille_plot(values, width - 4, height - 1)]


class AlarmsPane(Pane):
    TITLE = "alarms"
    alarms: Sequence[Alarm] = ()

    def line_count(self, width: int) -> int:
        return sum(len(wrap_text(alarm.text, "", max(10, width - 4))) for alarm in self.alarms)

    def paint(self, width: int, height: int) -> list[Line]:
        lines = [self.rule(width, f"alarms {len(self.alarms)}" if self.alarms else "alarms")]
        if not self.alarms:
            is_read = self.console_app.last_poll is not None
            return [*lines, Line((("   ✓ none", "good") if is_read else ("   reading …", "dim"),))]
        text_width = max(10, width - 4)
        for a in self.alarms:
            parts = wrap_text(a.text, a.level, text_width)
            lines += [Line(((" ! " if not i else "   ", a.level), part)) for i, part in enumerate(parts)]
        return lines[:height]
