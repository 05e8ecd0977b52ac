"""Screen 3, Hosts: limits, waits, backoff, errors and speed of every host."""

from dataclasses import dataclass

from textual.app import ComposeResult

from console.format import format_age, format_count, format_rate
from console.tui.screens.base import View
from console.tui.state.filters import host_filter
from console.tui.state.source import DataSource, PollResult, ViewQuery
from console.tui.widgets.line_canvas import Canvas, Line
from console.tui.widgets.line_table import Column, LineTable, Row
from engine.store.read.host_rows import HostRow
from engine.store.read.snapshot import Snapshot


class HostsTable(LineTable):
    """One row a host."""

    COLUMNS = (
        Column("HOST", 0), Column("RUN", 5, right=True), Column("WAITING", 7, right=True),
        Column("DELAY", 6, right=True), Column("NEXT", 6, right=True), Column("BACKOFF", 7, right=True),
        Column("BLOCKED", 7, right=True), Column("ERR", 5, right=True), Column("ROBOTS", 10),
        Column("PAGES/S", 7, right=True, min_pane_width=100), Column("STATE", 12, min_pane_width=110),
    )  # fmt: skip
    EMPTY = "no hosts yet"


@dataclass(frozen=True, slots=True)
class HostWaits:
    """A query's result: why the jobs of a host wait."""

    host: str
    reasons: tuple[str, ...]


class WaitsLines(Canvas):
    """Why the jobs of the host under the cursor wait."""

    waits: HostWaits | None = None

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        """A line for each of its first groups."""
        if self.waits is None:
            return []
        if not self.waits.reasons:
            return [Line(((f"   no job waits for {self.waits.host}", "dim"),))]
        heading = Line(((f"   jobs that wait for {self.waits.host}:", "dim"),))
        return [heading, *(Line(((f"   {reason}", "text"),)) for reason in self.waits.reasons)][:height]


class HostsView(View):
    """A table with a filter, and why the jobs of the chosen host wait."""

    NAME = "hosts"
    SNAPSHOT_LIMIT = 1_000
    _last_filter_text = ""
    HINTS = (
        ("↵", "jobs of host"), ("s", "sort"), ("S", "reverse"), ("/", "filter"), ("^s", "export"), ("?", "keys"),
        ("q", "quit"),
    )  # fmt: skip

    DEFAULT_CSS = "HostsView { layout: vertical; } HostsView HostsTable { height: 1fr; }"

    def compose(self) -> ComposeResult:
        """The table, and the reasons below it."""
        self.table, self.waits = HostsTable(), WaitsLines()
        self.waits.styles.height = 1
        yield from (self.table, self.waits)

    def view_query(self) -> ViewQuery | None:
        """Why the jobs of the host under the cursor wait."""
        return self._read_waits

    def _read_waits(self, source: DataSource, snapshot: Snapshot) -> HostWaits | None:
        row = self.table.row
        if row is None or snapshot.run is None:
            return None
        return HostWaits(str(row.key), tuple(source.host_waits(snapshot.run.seq, str(row.key))))

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        """Read the reasons of this host soon."""
        event.stop()
        self.console_app.navigation.refresh_query()

    def breadcrumb(self) -> str:
        """The number of hosts, or the filter."""
        count = len(self.table.rows)
        if self.table.filter_text:
            return f"Hosts /{self.table.filter_text}"
        return f"Hosts > {count}" if count < self.SNAPSHOT_LIMIT else f"Hosts > the first {count}"

    def show(self, poll: PollResult) -> None:
        """Show the hosts of a poll."""
        if poll.requester is self and isinstance(poll.view_data, HostWaits):
            self.waits.waits = poll.view_data
            self.waits.styles.height = 1 + len(poll.view_data.reasons)
            self.waits.redraw()
        if self.last_poll is not None and self.last_poll.snapshot is poll.snapshot and not self._filter_changed():
            return
        self.last_poll = poll
        rates = self._pages_per_s_by_host(poll)
        self.table.show_filtered([_host_row(host, rates.get(host.host, 0.0)) for host in poll.snapshot.hosts])
        self.console_app.navigation.refresh_breadcrumbs()

    def _filter_changed(self) -> bool:
        """Whether the filter changed since the last call."""
        before, self._last_filter_text = self._last_filter_text, self.table.filter_text
        return before != self._last_filter_text

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Show the host's jobs."""
        event.stop()
        self.console_app.navigation.push_jobs(host_filter(str(event.row.key)))

    def _pages_per_s_by_host(self, poll: PollResult) -> dict[str, float]:
        """Pages a second by host."""
        done: dict[str, int] = {}
        for sequence in poll.snapshot.sequences:
            done[sequence.host] = done.get(sequence.host, 0) + sequence.done
        return self.console_app.rates.update_hosts(done, poll.at)


def _host_row(host: HostRow, rate: float) -> Row:
    full = host.running >= host.concurrency
    answer = "guarded" if host.robots_status == -1 else f"ok {host.robots_status or ''}"
    robots = {"off": "off", "wanted": "fetching"}.get(host.robots, answer)
    if host.backoff:
        state = ("↓ backoff", "warn")
    elif host.next_in and host.waiting:
        state = ("◷ delayed", "text")
    elif host.running:
        state = ("■ full", "accent") if full else ("▶ busy", "good")
    else:
        state = ("● waiting", "text") if host.waiting else ("○ idle", "dim")
    mark = "↓" if host.backoff else ""
    return Row(
        host.host,
        (
            (host.host, "strong" if host.running else "text"),
            (f"{host.running}/{host.concurrency}", "good" if host.running else "dim"),
            (format_count(host.waiting), "text" if host.waiting else "dim"),
            (format_age(host.delay) if host.delay else "-", "text" if host.delay else "dim"),
            (format_age(host.next_in) if host.next_in else "now", "text" if host.next_in else "dim"),
            (mark + format_age(host.backoff) if host.backoff else "-", "warn" if host.backoff else "dim"),
            (format_count(host.blocked), "warn" if host.blocked else "dim"),
            (format_count(host.errors), "bad" if host.errors else "dim"),
            (robots, "dim"),
            (format_rate(rate), "text"),
            state,
        ),
        (
            host.host, host.running, host.waiting, host.delay, host.next_in, host.backoff,
            host.blocked, host.errors, host.robots, rate, state[0],
        ),
        host,
    )  # fmt: skip
