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

from console.crawl.source import DataSource, PollResult
from console.format import describe_replaced, format_age, format_count, format_rate, format_size, plural, short_url
from console.tui.screens.base import View
from console.tui.screens.summary import SummaryPane
from console.tui.state.filters import node_filter, sequence_filter
from console.tui.state.log_buffer import LogBuffer, LogFilter
from console.tui.widgets.columns import Column
from console.tui.widgets.data_pane import DataPane
from console.tui.widgets.header import backlog_span
from console.tui.widgets.line_canvas import Span
from console.tui.widgets.line_table import LineTable, Row
from console.tui.widgets.log_view import LogPane
from console.tui.widgets.pane import Pane
from console.tui.widgets.panels import AlarmsPane, HostsPane, OutputsPane, SequencesTable, ThroughputPane
from engine.model.node import state_word
from engine.model.run import Stage
from engine.store.read.failures import FailureGroup
from engine.store.read.snapshot import NodeRow
from engine.store.tables.run.machines import MachineRow
from engine.store.tables.run.runs import Run

_STATE_MARKS = {
    "starting": ("…", "dim"), "ready": ("▶", "good"), "done": ("●", "dim"), "standby": ("○", "accent"),
    "stopping": ("◐", "warn"), "stopped": ("□", "dim"), "stale": ("!", "warn"), "dead": ("✗", "bad"),
}  # fmt: skip
"""The glyph and the role of each word for a state."""
_ROLE_MARKS = {
    "INITIAL": ("… joining", "dim"), "LEADER": ("▶ leader", "good"), "STANDBY": ("○ standby", "accent"),
    "LEAVING": ("◐ leaving", "warn"),
}  # fmt: skip
_LATE_BEAT_SECONDS = 1.5
_LATE_SUPERVISOR_SECONDS = 3.0
"""It beats once a second."""
_SHOWN_AGE_SECONDS = 2.0
"""From here on the age of a request is shown."""
_SIDE_WIDTH, _WIDE_MIN_WIDTH, _SPLIT_MIN_HEIGHT = 64, 130, 9
_ENDED_STATES = ("TERMINATED", "DEAD", "FAILED")
_MAX_ENDED_SHOWN = 4


class NodesTable(LineTable):
    """The nodes, then the appender and the supervisor, or the machines that share the database."""

    COLUMNS = (
        Column("NODE", 10), Column("STATE", 10), Column("BEAT", 5, right=True), Column("JOB/S", 6, right=True),
        Column("DONE", 6, right=True), Column("FAILED", 6, right=True),
        Column("HELD", 4, right=True, min_pane_width=90), Column("RSS", 6, right=True, min_pane_width=84),
        Column("NOW", 0, keeps_end=True),
    )  # fmt: skip
    EMPTY = "no nodes"

    def update_from(self, poll: PollResult) -> None:
        """Show the processes of a poll: stale nodes first, the dead in one line; ended ones only if no other lives."""
        nodes = poll.snapshot.nodes
        replaced = {node.replaces: node.id for node in nodes if node.replaces}
        dead = [node for node in nodes if node.state in ("DEAD", "FAILED")]
        live = [node for node in nodes if node.state not in _ENDED_STATES]
        shown = sorted(live, key=lambda node: node.heart != "ARRHYTHMIA") or nodes[-_MAX_ENDED_SHOWN:]
        waits = _describe_waits(poll)
        rows = []
        for node in shown:
            rows += [self._node_row(node, replaced.get(node.id), waits), *_browser_rows(node)]
        if live and dead:
            rows.append(self._dead_row(dead, replaced))
        if poll.snapshot.run is not None and (poll.supervisor_pid is not None or poll.snapshot.run.state.is_open):
            rows += [*self._appender_rows(poll), *_supervisor_rows(poll, poll.snapshot.run)]
        keys = {row.key for row in rows}
        row, chosen = self.row, self.selected_rows()
        self.show_filtered(rows)
        if (row is not None and row.key not in keys) or (chosen and keys.isdisjoint(each.key for each in chosen)):
            self.has_cursor = False

    def _dead_row(self, dead: Sequence[NodeRow], replaced: Mapping[str, str]) -> Row:
        """The dead nodes in one line; it stands for the last of them."""
        row = self._node_row(dead[-1], replaced.get(dead[-1].id))
        if len(dead) == 1:
            return row
        reasons = ", ".join(f"{node.id} {node.reason or 'unknown reason'}" for node in reversed(dead))
        cells = list(row.cells)
        cells[0], cells[1], cells[-1] = (f"{len(dead)} nodes", "dim"), ("✗ dead", "dim"), (reasons, "dim")
        cells[4] = (format_count(sum(node.done for node in dead)), "dim")
        cells[5] = (format_count(sum(node.failed for node in dead)), "dim")
        return replace(row, cells=tuple(cells))

    def _node_row(self, node: NodeRow, replaced_by: str | None, waits: str = "") -> Row:
        return Row(
            node.id,
            (
                (node.id, "strong"),
                _state_span(state_word(node.state, node.heart)),
                (format_age(node.beat_age), "warn" if (node.beat_age or 0) >= _LATE_BEAT_SECONDS else "dim"),
                ("ended", "dim") if node.state in _ENDED_STATES else (format_rate(node.jobs_per_s), "text"),
                (format_count(node.done), "text"),
                (format_count(node.failed), "bad" if node.failed else "dim"),
                (format_count(node.in_flight), "text" if node.in_flight else "dim"),
                (format_size(node.rss) if node.rss else "-", "dim"),
                _activity(node, replaced_by, waits),
            ),
            _sort_values(node),
            node,
        )  # fmt: skip

    def _appender_rows(self, poll: PollResult) -> list[Row]:
        """The row of the appender; none if the run writes no files."""
        outputs = poll.snapshot.appenders
        run = poll.snapshot.run
        if not outputs or run is None:
            return []
        rows, size = sum(o.rows_per_s for o in outputs), sum(o.bytes_per_s for o in outputs)
        process = outputs[0]
        late = (process.beat_age or 0.0) >= _LATE_BEAT_SECONDS
        state: Span = ("▶ writing", "good") if any(output.backlog for output in outputs) else _state_span("done")
        if process.pid is None:
            state = _state_span("dead")
        elif "APPENDER" in run.stage and "STOPPING" in run.stage:
            state = _state_span("stopping")
        elif process.beat_age is None:
            state = _state_span("starting")
        elif late:
            state = _state_span("stale")
        flush = f"  flush {process.flush_ms:.1f} ms" if process.flush_ms is not None else ""
        errors = [output.error for output in outputs if output.error]
        files = errors or [output.name for output in outputs]
        text = (
            f"{format_rate(rows)} rows/s  {format_size(size)}B/s  backlog {backlog_span(outputs)[0]}{flush}  "
            f"{', '.join(files)}"
        )
        beat = (format_age(process.beat_age), "warn" if late else "dim")
        return [Row("appender", (("appender", "strong"), state, beat, (text, "bad" if errors else "text")))]


def _browser_rows(node: NodeRow) -> list[Row]:
    """The browsers of a node, sorted with it."""
    if node.browsers is None:
        return []
    rows = []
    for one in node.browsers.processes:
        more = f" +{one.loading - 1}" if one.loading > 1 else ""
        now = f"{format_age(one.age)} old" + (f" · {short_url(one.urls[0])}{more}" if one.urls else "")
        state: Span = (
            ("▶ loads", "good") if one.loading else ("● idle", "dim") if one.pages else _state_span("starting")
        )
        cells: tuple[Span, ...] = (
            ("└ browser", "dim"), state, ("", "dim"), ("", "dim"), (format_count(one.pages), "text"), ("", "dim"),
            (str(one.loading), "text" if one.loading else "dim"), (format_size(one.rss) if one.rss else "-", "dim"),
            (now, "text"),
        )  # fmt: skip
        rows.append(Row(f"{node.id} browser {one.pid}", cells, _sort_values(node)))
    if node.browsers.replaced:
        text = describe_replaced(node.browsers), "warn" if node.browsers.is_fault else "dim"
        rows.append(Row(f"{node.id} browsers", (("", "dim"), text), _sort_values(node)))
    return rows


def _sort_values(node: NodeRow) -> tuple[Any, ...]:
    return (
        int(node.id[1:]), node.state, node.beat_age, node.jobs_per_s, node.done, node.failed, node.in_flight,
        node.rss, node.now,
    )  # fmt: skip


def _state_span(word: str) -> Span:
    mark, role = _STATE_MARKS[word]
    return f"{mark} {word}", role


def _supervisor_rows(poll: PollResult, run: Run) -> Sequence[Row]:
    machines = poll.snapshot.machines
    if not machines:
        return [_supervisor_row(poll, run)]
    database = f"answers in {poll.snapshot.lag * 1000:.0f} ms  takeovers {run.takeovers or 0}"
    return [
        *map(_machine_row, machines),
        Row("supervisor database", (("database", "strong"), _state_span("ready"), ("", "dim"), (database, "text"))),
    ]


def _machine_row(machine: MachineRow) -> Row:
    late = machine.heart >= _LATE_SUPERVISOR_SECONDS
    state = _state_span("stale") if late else _ROLE_MARKS[machine.role]
    text = f"{plural(machine.nodes, 'node')}  {format_count(machine.done)} done"
    if len(machine.name) > NodesTable.COLUMNS[0].width:
        text += f"  {machine.name}"
    beat = (format_age(machine.heart), "warn" if late else "dim")
    return Row(f"supervisor {machine.name}", ((machine.name, "strong"), state, beat, (text, "text")))


def _supervisor_row(poll: PollResult, run: Run) -> Row:
    beat = poll.supervisor_beat
    late = beat is not None and beat.age >= _LATE_SUPERVISOR_SECONDS
    state = _state_span("stale" if late else "ready")
    text = f"pid {poll.supervisor_pid}  takeovers {run.takeovers or 0}"
    if beat is not None:
        text += f"  tick {beat.tick * 1000:.0f} ms"
    if poll.supervisor_pid is None:
        ended = run.stage == Stage.SHUTDOWN_COMPLETE
        state = _state_span("stopped") if ended else ("✗ lost", "bad")
        text = "its jobs wait for the next one"
    age = (format_age(beat.age if beat is not None else None), "warn" if late else "dim")
    return Row("supervisor", (("supervisor", "strong"), state, age, (text, "text")))


def _describe_waits(poll: PollResult) -> str:
    """Why a node has nothing to send: what holds the host that is free first, if all hosts were read."""
    shown = poll.snapshot
    if shown.run is not None and shown.run.paused:
        return "the run is paused"
    left = shown.jobs["ready"] + shown.jobs["taken"] + shown.files.get("left", 0) - shown.running
    waiting = [host for host in shown.hosts if host.waiting]
    if shown.host_count > len(shown.hosts) and left > 0:
        return f"{plural(left, 'job')} waiting"
    if not waiting:
        return "no job is ready"
    first = min(waiting, key=lambda host: (host.paused, max(host.backoff or 0.0, host.next_in or 0.0)))
    if first.paused:
        return f"{first.host} is paused"
    if first.backoff:
        return f"{first.host} rests, next in {format_age(first.backoff)}"
    if first.next_in:
        return f"delay of {first.host}, next in {format_age(first.next_in)}"
    if first.running >= first.concurrency:
        return f"{first.host} is at its concurrency of {first.concurrency}"
    return "takes the next job"


def _activity(node: NodeRow, replaced_by: str | None, waits: str) -> Span:
    state = node.state
    if state in ("DEAD", "FAILED"):
        return (node.reason or "unknown reason") + (f" · replaced by {replaced_by}" if replaced_by else ""), "dim"
    if state in ("DRAINING", "SHUTDOWN"):
        return f"finishing {plural(node.in_flight, 'job')}", "text"
    if state == "TERMINATED":
        return node.reason or "stopped", "dim"
    if node.heart == "ARRHYTHMIA":
        return f"no beat; {short_url(node.now)}", "text"
    if state == "STANDBY":
        return "replaces a dead runner", "text"
    if state == "STARTING":
        return "starting", "dim"
    if not node.now:
        return waits if node.in_flight else f"idle: {waits}", "text"
    return _request_span(node)


def _request_span(node: NodeRow) -> Span:
    """The oldest request of a node, with its age; amber from half of its deadline."""
    if node.now_age < _SHOWN_AGE_SECONDS:
        return short_url(node.now), "text"
    limit = f" of {node.now_limit:.0f} s" if node.now_limit else ""
    late = bool(node.now_limit) and node.now_age >= node.now_limit / 2
    return f"{short_url(node.now)} · {node.now_age:.0f} s{limit}", "warn" if late else "text"


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
        if marked or node is None or node.state in _ENDED_STATES:
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
        names = [node.id for node in nodes if node.state not in _ENDED_STATES]
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
