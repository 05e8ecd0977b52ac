"""Screen 1, Nodes: the table of nodes with the labels of their states, and its side panels."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace
from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.widget import Widget

from console.format import format_age, format_count, format_rate, format_size, plural, short_url
from console.tui.screens.base import View
from console.tui.state.filters import node_filter, sequence_filter
from console.tui.state.log_buffer import LogBuffer, LogFilter
from console.tui.state.rates import Rates
from console.tui.state.source import PollResult, ViewQuery
from console.tui.widgets.columns import Column
from console.tui.widgets.data_pane import DataPane
from console.tui.widgets.line_table import LineTable, Row
from console.tui.widgets.log_view import LogPane
from console.tui.widgets.pane import Pane
from console.tui.widgets.panels import AlarmsPane, HostsPane, OutputsPane, SequencesTable, ThroughputPane
from engine.model.node import state_word
from engine.store.read.host_rows import HostRow
from engine.store.read.snapshot import NodeRow

_STATE_MARKS = {
    "starting": ("…", "dim"), "ready": ("▶", "good"), "done": ("●", "dim"), "standby": ("○", "accent"),
    "stopping": ("◐", "warn"), "stopped": ("□", "dim"), "stale": ("!", "warn"), "dead": ("✗", "bad"),
}  # fmt: skip
"""The glyph and the role of each word for a state."""
_ROLE_LABELS = {"INITIAL": "new", "RUNNER": "runner", "BACKUP_RUNNER": "backup"}
_SIDE_WIDTH, _WIDE_MIN_WIDTH, _SPLIT_MIN_HEIGHT = 62, 130, 9
_ENDED_STATES = ("TERMINATED", "DEAD", "FAILED")
_MAX_ENDED_SHOWN = 4


class NodesTable(LineTable):
    COLUMNS = (
        Column("NODE", 4), Column("ROLE", 6), Column("STATE", 10), Column("BEAT", 5, right=True),
        Column("JOB/S", 6, right=True), Column("DONE", 6, right=True), Column("ERR", 4, right=True),
        Column("HELD", 4, right=True, min_pane_width=90), Column("RSS", 6, right=True, min_pane_width=84),
        Column("NOW", 0, keeps_end=True),
    )  # fmt: skip
    EMPTY = "no nodes"

    def __init__(self, rates: Rates, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates

    def update_from(self, poll: PollResult) -> None:
        """Show the nodes of a poll: live ones, then the dead in one line; ended ones only if there are no others."""
        nodes = poll.snapshot.nodes
        replaced = {node.replaces: node.id for node in nodes if node.replaces}
        dead = [node for node in nodes if node.state in ("DEAD", "FAILED")]
        live = [node for node in nodes if node.state not in _ENDED_STATES]
        shown = live or nodes[-_MAX_ENDED_SHOWN:]
        idle = _idle_reason(poll.snapshot.hosts)
        rows = [self._node_row(node, replaced.get(node.id), idle) for node in shown]
        if live and dead:
            rows.append(self._dead_row(dead, replaced))
        self.show_filtered(rows)

    def _dead_row(self, dead: Sequence[NodeRow], replaced: Mapping[str, str]) -> Row:
        """The dead nodes in one line; it stands for the last of them."""
        row = self._node_row(dead[-1], replaced.get(dead[-1].id))
        if len(dead) == 1:
            return row
        reasons = ", ".join(f"{node.id} {node.reason or 'unknown reason'}" for node in reversed(dead))
        cells = list(row.cells)
        cells[0], cells[2], cells[-1] = (f"{len(dead)}✗", "dim"), (f"✗ {len(dead)} dead", "dim"), (reasons, "dim")
        cells[5] = (format_count(sum(node.done for node in dead)), "dim")
        cells[6] = (format_count(sum(node.failed for node in dead)), "dim")
        return replace(row, cells=tuple(cells))

    def _node_row(self, node: NodeRow, replaced_by: str | None, idle: str = "") -> Row:
        ended = node.state in _ENDED_STATES
        node_rate = self.rates.nodes.get(node.id)
        rate = node_rate.per_second if node_rate and not ended else 0.0
        word = state_word(node.state, node.heart)
        mark, role = _STATE_MARKS[word]
        return Row(
            node.id,
            (
                (node.id, "strong"),
                (_ROLE_LABELS.get(node.role, "dead"), "text" if not ended else "dim"),
                (f"{mark} {word}", role),
                (format_age(node.beat_age), "warn" if (node.beat_age or 0) >= 1.5 else "dim"),
                (format_rate(rate), "text"),
                (format_count(node.done), "text"),
                (format_count(node.failed), "bad" if node.failed else "dim"),
                (format_count(node.in_flight), "text" if node.in_flight else "dim"),
                (format_size(node.rss) if node.rss else "-", "dim"),
                (_activity(node, replaced_by, idle), "text" if not ended else "dim"),
            ),
            (
                int(node.id[1:]), node.role, node.state, node.beat_age, rate, node.done,
                node.failed, node.in_flight, node.rss, node.now,
            ),
            node,
        )  # fmt: skip


def _idle_reason(hosts: Sequence[HostRow]) -> str:
    """Why a node has nothing to do: what holds the host that is free first."""
    waiting = [host for host in hosts if host.waiting]
    if not waiting:
        return "no job is ready"
    first = min(waiting, key=lambda host: max(host.backoff or 0.0, host.next_in or 0.0))
    if first.backoff:
        return f"next in {format_age(first.backoff)}: {first.host} rests"
    if first.next_in:
        return f"next in {format_age(first.next_in)}: {first.host}'s delay"
    if first.running >= first.concurrency:
        return f"{first.host} is at its concurrency of {first.concurrency}"
    return "takes the next job"


def _activity(node: NodeRow, replaced_by: str | None, idle: str) -> str:
    state, held = node.state, node.in_flight
    if state in ("DEAD", "FAILED"):
        return (node.reason or "unknown reason") + (f" · replaced by {replaced_by}" if replaced_by else "")
    if state in ("DRAINING", "SHUTDOWN"):
        return f"finishing {plural(held, 'job')}"
    if state == "TERMINATED":
        return node.reason or "stopped"
    if node.heart == "ARRHYTHMIA":
        return f"no beat; {short_url(node.now)}"
    if state == "STANDBY":
        return "replaces a dead runner"
    return short_url(node.now) if node.now else "starting" if state == "STARTING" else idle


class NodesView(View):
    """Arranges the panes: side by side in wide windows; in narrow ones a single pane below the nodes."""

    NAME = "nodes"
    READS_LOG = True
    HINTS = (
        ("↵", "jobs"), ("x", "drain"), ("X", "kill"), ("c", "cancel"), ("p", "pause"), ("tab", "panes"),
        ("/", "filter"), ("space", "mark"),
    )  # fmt: skip

    def __init__(self, rates: Rates, log_buffer: LogBuffer, **named: Any) -> None:
        super().__init__(**named)
        self.rates = rates
        self.log_buffer = log_buffer
        self.zoomed = False
        self._lower_pane: Pane | None = None
        self._last_arrangement: tuple[Any, ...] = ()

    def compose(self) -> ComposeResult:
        self.nodes = NodesTable(self.rates, id="nodes")
        self.log_pane = LogPane(self.log_buffer, id="log")
        self.sequences = SequencesTable(id="sequences")
        self.hosts = HostsPane(id="hosts")
        self.data = DataPane(id="data-defs")
        self.outputs = OutputsPane(self.rates, id="outputs")
        self.throughput = ThroughputPane(self.rates, id="speed")
        self.alarms = AlarmsPane(id="alarms")
        self._lower_pane = self.log_pane
        yield from self.panes()

    def view_query(self) -> ViewQuery | None:
        return self.console_app.log_buffer.read_new

    def show(self, poll: PollResult) -> None:
        self.last_poll = poll
        self.alarms.alarms = self.console_app.alarm_book.open
        for pane in (self.nodes, self.sequences, self.hosts, self.data, self.outputs, self.throughput):
            pane.update_from(poll)
        self.log_pane.pull_lines()
        self.alarms.redraw()
        self.arrange_panes()

    def panes(self) -> Sequence[Pane]:
        """All panes: in a narrow window `tab` shows the next one."""
        return [
            self.nodes, self.log_pane, self.sequences, self.hosts, self.data, self.outputs, self.throughput,
            self.alarms,
        ]  # fmt: skip

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
        if not width or self.last_poll is None:
            return
        focused = self.screen.focused
        alone = focused if (self.zoomed or height < _SPLIT_MIN_HEIGHT) and focused in self.panes() else None
        alarm_lines = min(6, self.alarms.line_count(_SIDE_WIDTH - 1))
        sizes = (self.nodes.rows, self.outputs.items, self.data.items, self.hosts.items)
        nodes, outputs, data_defs, hosts = map(len, sizes)
        counts = (nodes, outputs, alarm_lines, data_defs, hosts)
        arrangement = (width, height, alone, self._lower_pane, *counts)
        if arrangement == self._last_arrangement:
            return
        self._last_arrangement = arrangement
        places: dict[Widget, tuple[int, int, int, int]] = {}
        if alone is not None or height < _SPLIT_MIN_HEIGHT:
            places[alone or self.nodes] = (0, 0, width, height)
        else:
            side = _SIDE_WIDTH if width >= _WIDE_MIN_WIDTH else 0
            upper = max(3, min(counts[0] + 1, height * 3 // 5 if side else height // 2))
            places[self.nodes] = (0, 0, width - side, upper)
            lower = self.log_pane if side else self._lower_pane or self.log_pane
            places[lower] = (0, upper, width - side, height - upper)
            if side:
                places |= self._side_places(width - side + 1, side - 1, height, counts)
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
        """Kill the marked nodes; without marks, ask whether the node under the cursor or the whole run."""
        marked = sorted(str(key) for key in self.nodes.marks)
        row = self.nodes.row
        if marked or row is None or row.subject.state in _ENDED_STATES:
            self.console_app.actions.confirm_kill(marked)
        else:
            self.console_app.actions.choose_kill(str(row.key))

    def action_pause(self) -> None:
        """Pause or resume the focused sequence; elsewhere the app pauses the run."""
        row = self.sequences.row
        if self.screen.focused is self.sequences and row is not None:
            verbs = ("resume", "pause") if row.subject.paused else ("pause", "resume")
            names = {"sequence": row.subject.id}
            self.console_app.actions.send_command(verbs[0], names, undo=(verbs[1], names))
        else:
            raise SkipAction

    def _selected_node_ids(self, verb: str) -> list[str]:
        if self.screen.focused is not self.nodes and not self.nodes.marks:
            self.console_app.show_toast(f"{verb}: select a node first (tab)", "warning")
            return []
        names = [row.subject.id for row in self.nodes.selected_rows() if row.subject.state not in _ENDED_STATES]
        if not names:
            self.console_app.show_toast(f"{verb}: no live node is selected", "warning")
        return names

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        subject = event.row.subject
        is_node = event.table is self.nodes
        self.console_app.navigation.push_jobs(
            node_filter(subject.id) if is_node else sequence_filter(subject.group, subject.host)
        )

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        """A log limited to one node follows the cursor."""
        if event.table is self.nodes and self.log_pane.log_filter.sources:
            self._filter_log([event.table.row.subject.id] if event.table.row else [])

    def action_log_of(self) -> None:
        """Limit the log to the selected nodes, or show all."""
        names = [] if self.log_pane.log_filter.sources else [row.subject.id for row in self.nodes.selected_rows()]
        self._filter_log(names)

    def _filter_log(self, names: list[str]) -> None:
        log_filter = self.log_pane.log_filter
        self.log_pane.set_filter(LogFilter(log_filter.level, frozenset(names), log_filter.pattern, log_filter.negated))
