"""Screen 1, Nodes: the table of nodes with the labels of their states, and its side panels."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.widget import Widget

from crawl_console.crawl.source import DataSource, PollResult
from crawl_console.tui.screens.base import View
from crawl_console.tui.screens.summary import SummaryPane
from crawl_console.tui.state.log_buffer import LogBuffer, LogFilter
from crawl_console.tui.widgets.data_pane import DataPane
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.log_view import LogPane
from crawl_console.tui.widgets.pane import Pane
from crawl_console.tui.widgets.panels import AlarmsPane, HostsPane, OutputsPane, SequencesTable, ThroughputPane
from crawl_console.words.filters import node_filter, sequence_filter
from crawl_console.words.node_table import ENDED_STATES, NODE_COLUMNS, node_rows
from crawl_console.words.table import Row
from crawl_engine.store.read.failures import FailureGroup

_SIDE_WIDTH, _WIDE_MIN_WIDTH, _SPLIT_MIN_HEIGHT = 64, 130, 9


class NodesTable(LineTable):
    COLUMNS = NODE_COLUMNS
    EMPTY = "no nodes"

    def update_from(self, poll: PollResult) -> None:
        rows = node_rows(poll)
        keys = {row.key for row in rows}
        row, chosen = self.row, self.selected_rows()
        self.show_filtered(rows)
        if (row is not None and row.key not in keys) or (chosen and keys.isdisjoint(each.key for each in chosen)):
            self.has_cursor = False


class NodesView(View):
    """Arranges the panes: side by side in wide windows; in narrow ones a single pane below the nodes."""

    NAME = "nodes"
    READS_LOG = True
    HINTS = (
        ("open", "jobs"), ("drain", "drain"), ("kill", "kill"), ("cancel", "cancel"), ("pause", "pause"),
        ("next_pane", "panes"), ("filter", "filter"), ("mark", "mark"),
    )  # fmt: skip

    def __init__(self, log_buffer: LogBuffer, **named: Any) -> None:
        super().__init__(**named)
        self.log_buffer = log_buffer
        self.zoomed = False
        self.summary = SummaryPane(id="summary")
        self._lower_pane: Pane | None = None
        self._ended = False
        self._last_arrangement: tuple[Any, ...] = ()

    def compose(self) -> ComposeResult:
        self.nodes = NodesTable(id="nodes")
        self.log_pane = LogPane(self.log_buffer, id="log")
        self.sequences = SequencesTable(id="sequences")
        self.hosts = HostsPane(id="hosts")
        self.data = DataPane(id="data-defs")
        self.outputs = OutputsPane(id="outputs")
        self.throughput = ThroughputPane(id="speed")
        self.alarms = AlarmsPane(id="alarms")
        self._lower_pane = self._lower_pane or self.log_pane
        yield from self.panes()

    def read(self, source: DataSource, run: int) -> list[FailureGroup] | None:
        """Why pages failed, while the summary is open."""
        return source.failure_groups(run) if self._lower_pane is self.summary else None

    def show(self, poll: PollResult) -> None:
        failures: list[FailureGroup] | None = self.take_data(poll)
        if failures is not None:
            self.summary.failures = failures
        run = poll.snapshot.run
        ended = run is not None and poll.supervisor_pid is None and not run.state.is_open
        if ended != self._ended:
            self._ended, self._lower_pane = ended, self.summary if ended else self.log_pane
        if self._lower_pane is self.summary:
            self.summary.update_from(poll)
        self.alarms.alarms = self.console_app.alarm_book.open
        for pane in (self.nodes, self.sequences, self.hosts, self.data, self.outputs, self.throughput):
            pane.update_from(poll)
        self.show_wanted(self.nodes, was_read=poll.requester is self)
        self.log_pane.failed_count = poll.snapshot.jobs["failed"]
        self.log_pane.pull_lines()
        self.alarms.redraw()
        self.arrange_panes()

    def panes(self) -> Sequence[Pane]:
        """All panes: in a narrow window `tab` shows the next one."""
        return [
            self.nodes, self.log_pane, self.sequences, self.hosts, self.data, self.outputs, self.throughput,
            self.alarms, self.summary,
        ]  # fmt: skip

    def show_summary(self) -> None:
        """Show what the run gave so far."""
        self._lower_pane = self.summary
        if self.last_poll is not None:
            self.show(self.last_poll)

    # --- arrangement

    def on_resize(self, _event: events.Resize) -> None:
        self.arrange_panes()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """In a narrow window show the focused pane."""
        if isinstance(event.widget, Pane) and event.widget is not self.nodes:
            self._lower_pane = event.widget
        self.arrange_panes()

    def arrange_panes(self) -> None:
        """Place the panes, if something changed."""
        width, height = self.size
        if not width:
            return
        focused = self.screen.focused
        alone = focused if (self.zoomed or height < _SPLIT_MIN_HEIGHT) and focused in self.panes() else None
        alarm_lines = min(6, self.alarms.line_count(_SIDE_WIDTH - 2))
        sizes = (self.nodes.rows, self.outputs.items, self.data.items, self.hosts.items)
        nodes, outputs, data_defs, hosts = (len(items or ()) for items in sizes)
        counts = (nodes, outputs, alarm_lines, data_defs, hosts)
        summary_lines = self.summary.line_count if self._lower_pane is self.summary else 0
        arrangement = (width, height, alone, self._lower_pane, summary_lines, *counts)
        if arrangement == self._last_arrangement:
            return
        self._last_arrangement = arrangement
        places: dict[Widget, tuple[int, int, int, int]] = {}
        if alone is not None or height < _SPLIT_MIN_HEIGHT:
            places[alone or self.nodes] = (0, 0, width, height)
        else:
            side = _SIDE_WIDTH if width >= _WIDE_MIN_WIDTH else 0
            upper = max(3, min(counts[0] + 1, height * 3 // 5))
            places[self.nodes] = (0, 0, width - side, upper)
            if side and summary_lines:
                places[self.summary] = (0, upper, width - side, min(summary_lines + 1, (height - upper) * 2 // 3))
                upper += places[self.summary][3]
            lower = self.log_pane if side else self._lower_pane or self.log_pane
            places[lower] = (0, upper, width - side, height - upper)
            if side:
                places |= self._side_places(width - side + 1, side - 2, height, counts)
        for pane in self.panes():
            place = places.get(pane)
            pane.display = place is not None
            if place is not None:
                pane.styles.offset = Offset(place[0], place[1])
                pane.styles.width, pane.styles.height = place[2], place[3]

    def _side_places(
        self, x: int, width: int, height: int, counts: tuple[int, int, int, int, int]
    ) -> dict[Widget, tuple[int, int, int, int]]:
        """The right side from the bottom: alarms, throughput, output, data, hosts; sequences take the rest."""
        heights = {
            self.alarms: 1 + max(1, counts[2]), self.throughput: max(3, min(9, height // 5)),
            self.outputs: 1 + max(1, min(6, counts[1])), self.data: 1 + max(1, min(8, counts[3])),
            self.hosts: 1 + max(2, min(height // 4, counts[4])),
        }  # fmt: skip
        places: dict[Widget, tuple[int, int, int, int]] = {}
        bottom = height
        for pane, preferred in heights.items():
            pane_height = min(preferred, max(0, bottom - 4))
            bottom -= pane_height
            places[pane] = (x, bottom, width, pane_height)
        places[self.sequences] = (x, 0, width, bottom)
        return {pane: place for pane, place in places.items() if place[3] > 0}

    # --- keys

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self.arrange_panes()

    def action_drain(self) -> None:
        """Drain the selected nodes: they take no more jobs, then stop."""
        self.console_app.actions.send_to_nodes("drain", self._selected_node_ids("drain"))
        self.nodes.marks.clear()

    def action_restart(self) -> None:
        """Ask, then drain the selected nodes, and start new ones; without a supervisor the app restarts that."""
        if self.last_poll is None or self.last_poll.supervisor_pid is None:
            raise SkipAction
        names = self._selected_node_ids("restart")
        if not names:
            return
        lines, actions = ["Each finishes its jobs, then a new node takes its place."], self.console_app.actions
        restart = partial(actions.send_to_nodes, "restart", names)
        actions.confirm_then(f"Restart {', '.join(names)}", lines, "Restart", restart)
        self.nodes.marks.clear()

    def action_add(self) -> None:
        self.console_app.actions.add_node()

    def action_retire(self) -> None:
        self.console_app.actions.remove_node()

    def action_kill(self) -> None:
        """Kill the marked nodes; without marks, ask whether the node under the cursor or the whole run.

        The row of a browser stands for its node.
        """
        marked = sorted(row.subject.id for row in self.nodes.rows if row.key in self.nodes.marks and row.subject)
        name = str(self.nodes.row.key).split()[0] if self.nodes.row is not None else ""
        node = next((row.subject for row in self.nodes.rows if row.key == name), None)
        if marked or node is None or node.state in ENDED_STATES:
            self.console_app.actions.confirm_kill(marked)
        else:
            self.console_app.actions.choose_kill(name)

    def action_pause(self) -> None:
        """Pause or resume the focused sequence; elsewhere the app pauses the run."""
        row = self.sequences.row
        if self.screen.focused is not self.sequences or row is None:
            raise SkipAction
        if row.subject is None:
            self.console_app.show_toast("pause: select a sequence first", "warning")
        else:
            self.console_app.actions.toggle_sequence(row.subject)

    def _selected_node_ids(self, verb: str) -> list[str]:
        if self.screen.focused is not self.nodes and not self.nodes.marks:
            self.console_app.show_toast(f"{verb}: select a node first (tab)", "warning")
            return []
        nodes = [row.subject for row in self.nodes.selected_rows() if row.subject is not None]
        names = [node.id for node in nodes if node.state not in ENDED_STATES]
        if not names:
            self.console_app.show_toast(f"{verb}: no live node is selected", "warning")
        return names

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Show the jobs of a node or sequence, the log of appender or supervisor."""
        event.stop()
        subject = event.row.subject
        is_node = event.table is self.nodes
        if subject is None:
            if is_node:
                self._filter_log([event.row])
            return
        self.console_app.navigation.push_jobs(
            node_filter(subject.id) if is_node else sequence_filter(subject.group, subject.host)
        )

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        """A log limited to one node follows the cursor."""
        if event.table is self.nodes and self.log_pane.log_filter.sources:
            self._filter_log([event.table.row] if event.table.row else [])

    def action_log_of(self) -> None:
        """Limit the log to the selected nodes, or show all."""
        self._filter_log([] if self.log_pane.log_filter.sources else self.nodes.selected_rows())

    def _filter_log(self, rows: Sequence[Row]) -> None:
        log_filter = self.log_pane.log_filter
        sources = frozenset(str(row.key).split()[0] for row in rows)  # `supervisor` for each machine
        self.log_pane.set_filter(LogFilter(log_filter.level, sources, log_filter.pattern, log_filter.negated))
