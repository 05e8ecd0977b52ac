"""Screen 3, Hosts: pages, errors, latency, limits and waits of every host; changes their limits."""

from typing import Any

from msgspec import Struct
from textual.app import ComposeResult

from console.client import end_host
from console.format import (
    braille_plot,
    format_age,
    format_count,
    format_latency,
    format_rate,
    format_signal,
    format_size,
    plural,
    shorten_name,
)
from console.tui.screens.base import View
from console.tui.state.filters import host_filter
from console.tui.state.source import DataSource, PollResult
from console.tui.widgets.columns import Column
from console.tui.widgets.host_spans import bad_span, host_rank, latency_trend, next_span
from console.tui.widgets.line_canvas import Canvas, Line, Span
from console.tui.widgets.line_table import LineTable, Row
from engine.errors import UsageError
from engine.model.host import STATUS_CLASSES
from engine.settings.values import parse_seconds
from engine.store.read.host_rows import HostRow

_SPARKS = 8
_STRIP_LINES = 5
_CHART_LINES = len(STATUS_CLASSES) + 4 + _STRIP_LINES
"""Lines for bars and strip of the chosen host."""
_CLASS_ROLES = {"2xx": "good", "3xx": "text", "4xx": "warn", "429": "warn", "5xx": "bad", "none": "bad"}


class HostsTable(LineTable):
    COLUMNS = (
        Column("HOST", 0, keeps_end=True), Column("DONE", 6, right=True), Column("BAD%", 5, right=True),
        Column("BLOCKED", 7, right=True), Column("P50", 6, right=True), Column("P95", 6, right=True),
        Column("TREND", _SPARKS, min_pane_width=100), Column("NEXT", 8, right=True), Column("ETA", 6, right=True),
        Column("RUN", 5, right=True, min_pane_width=92), Column("WAITING", 7, right=True, min_pane_width=92),
        Column("DELAY", 6, right=True, min_pane_width=124), Column("BYTES", 6, right=True, min_pane_width=124),
        *(Column(name.upper(), 6, right=True, min_pane_width=150) for name in STATUS_CLASSES),
        Column("PAGES/S", 7, right=True, min_pane_width=182), Column("ROBOTS", 8),
    )  # fmt: skip
    EMPTY = "no hosts yet"


class HostWaits(Struct, frozen=True):
    """A query's result: why the jobs of a host wait."""

    host: str
    reasons: tuple[str, ...]


class HostData(Struct, frozen=True):
    """What a poll reads for the view: why jobs of the host under the cursor wait, and the host named by an alarm."""

    waits: HostWaits | None = None
    name: str | None = None
    named: HostRow | None = None


class HostLines(Canvas):
    """The host under the cursor: its answers, what an operator set, its Content-Signal, why its jobs wait."""

    row: HostRow | None = None
    waits: HostWaits | None = None

    @property
    def line_count(self) -> int:
        has_signal = self.row is not None and bool(self.row.content_signal)
        return 2 + has_signal + max(1, len(self._reasons or ()))

    @property
    def _reasons(self) -> tuple[str, ...] | None:
        """Why jobs of this host wait; None: not read yet."""
        waits = self.waits
        return waits.reasons if self.row is not None and waits is not None and waits.host == self.row.host else None

    def paint(self, width: int, height: int) -> list[Line]:
        if self.row is None:
            return []
        lines = [Line((("─" * width, "dim"),)), Line(self._answer_spans(self.row, width))]
        if self.row.content_signal:
            lines.append(Line((("   Content-Signal ", "dim"), (format_signal(self.row.content_signal), "text"))))
        if self._reasons is not None:
            reasons = self._reasons or (f"no job waits for {self.row.host}",)
            lines += [Line(((f"   {reason}", "text" if self._reasons else "dim"),)) for reason in reasons]
        if height >= len(lines) + _CHART_LINES:
            lines += self._chart(self.row, width)
        return lines[:height]

    @staticmethod
    def _chart(row: HostRow, width: int) -> list[Line]:
        """Answers by class as bars, and the latency of the last minute as a strip."""
        total = sum(row.answers.values())
        lines = [Line(()), Line((("   answers", "dim"),))]
        for name in STATUS_CLASSES:
            if count := row.answers.get(name):
                bar = "━" * max(1, round(count / total * (width - 40)))
                text = f"  {count:,}  {count / total:.1%}"
                lines.append(Line(((f"   {name:<6}", "dim"), (bar, _CLASS_ROLES[name]), (text, "text"))))
        lines += [Line(())] * (len(STATUS_CLASSES) + 3 - len(lines))
        top = format_latency(max((value for value in row.recent_p50 if value is not None), default=None))
        lines.append(Line(((f"   latency p50 of the last minute, every 5 s; top {top}", "dim"),)))
        cells = max(1, (width - 6) // 12)
        values = [value or 0.0 for value in row.recent_p50 for _ in range(2 * cells)]
        strip = braille_plot(values, 12 * cells, _STRIP_LINES)
        return [*lines, *(Line((("   " + text, "accent"),)) for text in strip)]

    @staticmethod
    def _answer_spans(row: HostRow, width: int) -> list[Span]:
        spans: list[Span] = [(f"   {shorten_name(row.host, max(12, width // 3))}", "strong")]
        for name in STATUS_CLASSES:
            if row.answers.get(name):
                shown = {"none": "no answer"}.get(name, name)
                spans += [(f"  {shown} ", "dim"), (format_count(row.answers[name]), _CLASS_ROLES[name])]
        if row.operator_delay is not None:
            spans.append((f"  delay {row.operator_delay:g} s", "accent"))
        if row.operator_concurrency is not None:
            spans.append((f"  concurrency {row.operator_concurrency}", "accent"))
        return [*spans, ("  D defs' values", "dim")] if row.is_controlled else spans


class HostsView(View):
    """A table with a filter, and details of the chosen host."""

    NAME = "hosts"
    SNAPSHOT_LIMIT = 1_000
    _last_filter_text = ""
    HINTS = (
        ("open", "jobs"), ("log_of", "errors"), ("pause", "pause host"), ("host_delay", "delay"),
        ("host_concurrency", "concurrency"), ("sort", "sort"), ("filter", "filter"),
    )  # fmt: skip

    DEFAULT_CSS = "HostsView { layout: vertical; } HostsView HostsTable { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, tuple[tuple[HostRow, bool], Row]] = {}
        self._named: HostRow | None = None
        """The host of an alarm that is not among the first ones; it is shown too."""

    def compose(self) -> ComposeResult:
        self.table, self.details = HostsTable(), HostLines()
        self.details.styles.height = 3
        yield from (self.table, self.details)

    def read(self, source: DataSource, run: int) -> HostData:
        row, named = self.table.row, self._named
        name: str | None = self.wanted or (named.host if named is not None else None)
        waits = None if row is None else HostWaits(str(row.key), tuple(source.host_waits(run, str(row.key))))
        return HostData(waits, name, source.host(run, name) if name else None)

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        event.stop()
        self._update_details()
        self.console_app.navigation.refresh_query()

    def breadcrumb(self) -> str:
        count = len(self.table.rows)
        if self.table.filter_text:
            return f"Hosts /{self.table.filter_text}"
        if self._named is not None:
            return f"the first {count - 1} hosts and {self._named.host}"
        return plural(count, "host") if count < self.SNAPSHOT_LIMIT else f"the first {count} hosts"

    def show(self, poll: PollResult) -> None:
        if poll.requester is not self:
            return  # it was made for another screen, with fewer hosts
        data = poll.view_data if isinstance(poll.view_data, HostData) else HostData()
        self.details.waits = data.waits or self.details.waits
        before, self._named = self._named, self._find_named(poll, data)
        changed = self.last_poll is None or self.last_poll.snapshot is not poll.snapshot or before != self._named
        if changed or self._filter_changed():
            self.last_poll = poll
            hosts = [*poll.snapshot.hosts, *([self._named] if self._named is not None else ())]
            is_live = poll.supervisor_pid is not None
            self.table.show_filtered([self._row(host, is_live=is_live) for host in sorted(hosts, key=host_rank)])
            self.console_app.navigation.refresh_breadcrumbs()
        self.show_wanted(self.table, was_read=self.wanted == data.name)
        self._update_details()

    @staticmethod
    def _find_named(poll: PollResult, data: HostData) -> HostRow | None:
        """The named host, if the snapshot leaves it out; without a supervisor it runs nothing."""
        host = data.named
        if host is None or any(other.host == host.host for other in poll.snapshot.hosts):
            return None
        return host if poll.supervisor_pid is not None else end_host(host)

    def _row(self, host: HostRow, *, is_live: bool) -> Row:
        """The row of a host; made again only where something changed: there may be a thousand."""
        made_of, row = self._rows.get(host.host, (None, None))
        if row is None or made_of != (host, is_live):
            row = _host_row(host, is_live=is_live)
            self._rows[host.host] = ((host, is_live), row)
        return row

    def _update_details(self) -> None:
        self.details.row = self.table.row.subject if self.table.row is not None else None
        rows, height = self.details.line_count, self.size.height
        table = min(len(self.table.rows) + 1, max(3, height // 2))
        if height - table >= rows + _CHART_LINES:
            rows = height - table
        self.details.styles.height = rows if height >= 12 else 0
        self.details.redraw()

    def _filter_changed(self) -> bool:
        """Whether the filter changed since the last call."""
        before, self._last_filter_text = self._last_filter_text, self.table.filter_text
        return before != self._last_filter_text

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        self.console_app.navigation.push_jobs(host_filter(str(event.row.key)))

    # --- keys

    def action_log_of(self) -> None:
        """Show the last errors of the host."""
        if (row := self._chosen_host("l")) is not None:
            self.console_app.navigation.push_host_errors(row.host)

    def action_pause(self) -> None:
        if (row := self._chosen_host("p")) is not None:
            self._control(row, paused=not row.paused)

    def action_host_delay(self) -> None:
        if (row := self._chosen_host("d", asks=True)) is not None:
            value = f"{row.delay:g}"
            self.console_app.prompt.ask(
                f"seconds between two requests to {row.host}", value,
                lambda text: self._control(row, delay=_parse_delay(text)),
            )  # fmt: skip

    def action_host_concurrency(self) -> None:
        if (row := self._chosen_host("C", asks=True)) is not None:
            self.console_app.prompt.ask(
                f"concurrent requests to {row.host}", str(row.concurrency),
                lambda text: self._control(row, concurrency=_parse_concurrency(text)),
            )  # fmt: skip

    def action_host_reset(self) -> None:
        """Go back to the defs' values."""
        if (row := self._chosen_host("D")) is not None:
            self._control(row, reset=True)

    def _chosen_host(self, key: str, *, asks: bool = False) -> HostRow | None:
        """The host under the cursor. `asks`: the operator may go on to type."""
        row = self.table.row
        if row is None:
            app, text = self.console_app, f"{key}: choose a host first"
            app.prompt.refuse(text) if asks else app.show_toast(text, "warning")
            return None
        host: HostRow = row.subject
        return host

    def _control(self, row: HostRow, **changes: Any) -> None:
        before: dict[str, Any] = {"host": row.host, "reset": True}
        if row.paused:
            before["paused"] = True
        if row.operator_delay is not None:
            before["delay"] = row.operator_delay
        if row.operator_concurrency is not None:
            before["concurrency"] = row.operator_concurrency
        self.console_app.actions.send_command("host", {"host": row.host, **changes}, undo=("host", before))


def _parse_delay(text: str) -> float:
    try:
        return parse_seconds(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a time", "Write seconds, or 500ms, 2s, 5m.") from None


def _parse_concurrency(text: str) -> int:
    if not (text.strip().isdecimal() and int(text)):
        raise UsageError(f"'{text}' is not a number of requests", "Write 1 or more; p pauses the host.")
    return int(text)


def _host_row(host: HostRow, *, is_live: bool) -> Row:
    answer = "guarded" if host.robots_status == -1 else f"ok {host.robots_status or ''}"
    robots = {"off": "off", "wanted": "fetching"}.get(host.robots, answer)
    eta = host.eta if is_live and (host.waiting or host.running) else None
    return Row(
        host.host,
        (
            (host.host, "strong" if host.running else "text"),
            (format_count(host.pages), "strong" if host.pages else "dim"),
            bad_span(host),
            (format_count(host.blocked), "warn" if host.blocked else "dim"),
            (format_latency(host.p50), "text"),
            (format_latency(host.p95), "text"),
            (latency_trend(host, _SPARKS), "accent"),
            next_span(host, is_live=is_live),
            (format_age(eta), "text" if eta is not None else "dim"),
            (f"{host.running}/{host.concurrency}", "good" if host.running else "dim"),
            (format_count(host.waiting), "text" if host.waiting else "dim"),
            (format_age(host.delay) if host.delay else "-", "text" if host.delay else "dim"),
            (format_size(host.bytes), "text"),
            *(
                (format_count(host.answers.get(name, 0)), _CLASS_ROLES[name] if host.answers.get(name) else "dim")
                for name in STATUS_CLASSES
            ),
            (format_rate(host.pages_per_s), "text"),
            (robots, "dim"),
        ),
        (
            host.host, host.pages, host.bad_share, host.blocked, host.p50, host.p95, host.p50,
            host.backoff or host.next_in, eta, host.running, host.waiting, host.delay, host.bytes,
            *(host.answers.get(name, 0) for name in STATUS_CLASSES), host.pages_per_s, host.robots,
        ),
        host,
    )  # fmt: skip
