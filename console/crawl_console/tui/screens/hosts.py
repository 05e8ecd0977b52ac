"""Screen 3, Hosts: pages, errors, latency, limits and waits of every host; changes their limits."""

import time
from typing import Any, NamedTuple

from textual.app import ComposeResult

from crawl_console.client import end_host
from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.format import plural
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.host_details import HostDetails, HostMore
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.filters import host_filter
from crawl_console.words.host_spans import host_rank
from crawl_console.words.host_table import HOST_COLUMNS, host_row
from crawl_console.words.table import Row
from crawl_engine.errors import UsageError
from crawl_engine.settings.values import parse_seconds
from crawl_engine.store.read.host_rows import HostRow

_DETAIL_MIN_HEIGHT = 12
"""Lines of the screen from which the chosen host is described."""
_DETAIL_LINES = 24
"""If there are many hosts, the chosen one has so many lines, in a low window fewer."""
_EVENTS, _READ_SECONDS = 8, 2.0
"""How many events of the chosen host are read, and how often."""


class HostsTable(LineTable):
    COLUMNS = HOST_COLUMNS
    EMPTY = "no hosts yet"


class HostData(NamedTuple):
    """What a poll reads for the view: more of the host under the cursor, and the host named by an alarm."""

    more: HostMore | None = None
    name: str | None = None
    named: HostRow | None = None


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
        self.table, self.details = HostsTable(), HostDetails()
        self.details.styles.height = 3
        yield from (self.table, self.details)

    def read(self, source: DataSource, run: int) -> HostData:
        row, named, more, now = self.table.row, self._named, self.details.more, time.monotonic()
        name: str | None = self.wanted or (named.host if named is not None else None)
        if row is None:
            more = None
        else:
            host = str(row.key)
            is_new = more is None or more.host != host or now - more.at > _READ_SECONDS
            events = source.host_events(run, host, _EVENTS) if more is None or is_new else more.events
            at = now if more is None or is_new else more.at
            more = HostMore(host, tuple(source.host_waits(run, host)), tuple(events), at)
        return HostData(more, name, source.host(run, name) if name else None)

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
        self.details.more = data.more or self.details.more
        before, self._named = self._named, self._find_named(poll, data)
        changed = self.last_poll is None or self.last_poll.snapshot is not poll.snapshot or before != self._named
        if changed or self._filter_changed():
            self.last_poll = poll
            hosts = [*poll.snapshot.hosts, *([self._named] if self._named is not None else ())]
            is_live = poll.supervisor_pid is not None
            self.details.add_rates(hosts, poll.at)
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
            row = host_row(host, is_live=is_live)
            self._rows[host.host] = ((host, is_live), row)
        return row

    def _update_details(self) -> None:
        self.details.row = self.table.row.subject if self.table.row is not None else None
        height = self.size.height
        table = min(self.table.full_height, height - min(_DETAIL_LINES, height * 2 // 5))
        self.details.styles.height = height - table if height >= _DETAIL_MIN_HEIGHT else 0
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
