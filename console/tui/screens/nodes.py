"""Screen 1, Nodes: every node with state, heart and speed; sequences, hosts, appender, log beside it as room allows."""

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.widget import Widget

from console.format import format_age, format_count, format_rate, format_size, plural, short_url
from console.tui.screens.base import View
from console.tui.state.filters import of_node, of_sequence
from console.tui.state.log_buffer import Sieve, Tail
from console.tui.state.rates import Paces
from console.tui.state.source import Look, Reading
from console.tui.widgets.line_table import Column, Row, Table
from console.tui.widgets.log_view import LogPane
from console.tui.widgets.pane import Pane
from console.tui.widgets.panels import Alarms, Outputs, Resting, Sequences, Speed

_STATES = {
    "STARTING": ("… starts", "dim"), "READY": ("▶ ready", "good"), "DONE": ("● done", "text"),
    "STANDBY": ("○ standby", "accent"), "DRAINING": ("◐ drain", "warn"), "SHUTDOWN": ("■ stops", "warn"),
    "TERMINATED": ("□ ended", "dim"), "DEAD": ("✗ dead", "bad"), "FAILED": ("✗ failed", "bad"),
}  # fmt: skip
_ROLES = {"INITIAL": "new", "RUNNER": "runner", "BACKUP_RUNNER": "backup"}
_SIDE, _WIDE, _LOW = 56, 124, 9
_ENDED = ("TERMINATED", "DEAD", "FAILED")


class Nodes(Table):
    """One line a node."""

    COLUMNS = (
        Column("NODE", 4), Column("ROLE", 6), Column("STATE", 9), Column("BEAT", 5, right=True),
        Column("JOB/S", 6, right=True), Column("DONE", 6, right=True), Column("ERR", 4, right=True),
        Column("HELD", 4, right=True, least=90), Column("RSS", 6, right=True, least=84), Column("NOW", 0),
    )  # fmt: skip
    EMPTY = "no nodes: nothing runs here"

    def __init__(self, paces: Paces, **named: Any) -> None:
        super().__init__(**named)
        self.paces = paces

    def take(self, look: Look) -> None:
        """Those of a look: the living, and the dead that were not stopped in order."""
        nodes = look.snapshot.nodes
        replaced = {node["replaces"]: node["id"] for node in nodes if node["replaces"]}
        living = [n for n in nodes if n["state"] != "TERMINATED"] or nodes[-4:]
        self.show_sought([self._row(n, replaced.get(n["id"])) for n in living])

    def _row(self, node: dict[str, Any], by: str | None) -> Row:
        ended = node["state"] in _ENDED
        pace = self.paces.nodes.get(node["id"])
        speed = pace.per_second if pace and not ended else 0.0
        state = ("! stale", "warn") if not ended and node["heart"] == "ARRHYTHMIA" else _STATES[node["state"]]
        return Row(
            node["id"],
            (
                (node["id"], "strong"),
                (_ROLES.get(node["role"], "dead"), "text" if not ended else "dim"),
                state,
                (format_age(node["beat_age"]), "warn" if (node["beat_age"] or 0) >= 1.5 else "dim"),
                (format_rate(speed), "text"),
                (format_count(node["done"]), "text"),
                (format_count(node["failed"]), "bad" if node["failed"] else "dim"),
                (format_count(node["in_flight"]), "text" if node["in_flight"] else "dim"),
                (format_size(node["rss"]) if node["rss"] else "-", "dim"),
                (_now(node, by), "text" if not ended else "dim"),
            ),
            (
                int(node["id"][1:]), node["role"], node["state"], node["beat_age"], speed, node["done"],
                node["failed"], node["in_flight"], node["rss"], node["now"],
            ),
            node,
        )  # fmt: skip


def _now(node: dict[str, Any], by: str | None) -> str:
    state, held = node["state"], node["in_flight"]
    if state in ("DEAD", "FAILED"):
        return (node["reason"] or "no reason told") + (f" · replaced by {by}" if by else "")
    if state in ("DRAINING", "SHUTDOWN"):
        return f"finishing {plural(held, 'job')}"
    if state == "TERMINATED":
        return node["reason"] or "stopped in order"
    if node["heart"] == "ARRHYTHMIA":
        return f"no beat; {short_url(node['now'])}"
    if state == "STANDBY":
        return "takes over when a runner dies"
    return short_url(node["now"]) if node["now"] else "starting" if state == "STARTING" else "nothing to take now"


class NodesView(View):
    """The panes and where they stand: side by side in wide windows, one below the nodes in narrow ones."""

    NAME = "nodes"
    READS_LOG = True
    HINTS = (
        ("↵", "jobs"), ("x", "drain"), ("X", "kill"), ("c", "cancel"), ("p", "pause"), ("tab", "panes"),
        ("/", "filter"), ("space", "mark"), ("?", "keys"), ("q", "quit"),
    )  # fmt: skip

    def __init__(self, paces: Paces, tail: Tail, **named: Any) -> None:
        super().__init__(**named)
        self.paces = paces
        self.tail = tail
        self.zoomed = False
        self._lower: Pane | None = None
        self._laid: tuple[Any, ...] = ()

    def compose(self) -> ComposeResult:
        """All panes; `place` says which are seen."""
        self.nodes = Nodes(self.paces, id="nodes")
        self.log_pane = LogPane(self.tail, id="log")
        self.sequences = Sequences(id="sequences")
        self.hosts = Resting(id="hosts")
        self.outputs = Outputs(self.paces, id="outputs")
        self.speed = Speed(self.paces, id="speed")
        self.alarms = Alarms(id="alarms")
        self._lower = self.log_pane
        yield from (self.nodes, self.log_pane, self.sequences, self.hosts, self.outputs, self.speed, self.alarms)

    def crumb(self) -> str:
        """Nodes."""
        return "Nodes"

    def reading(self) -> Reading | None:
        """The log's new lines."""
        return self.console_app.log_reading()

    def show(self, look: Look) -> None:
        """Give each pane what it draws."""
        self.look = look
        self.alarms.alarms = self.console_app.alarms
        for pane in (self.nodes, self.sequences, self.hosts, self.outputs, self.speed):
            pane.take(look)
        self.log_pane.take()
        self.alarms.redraw()
        self.place()

    def panes(self) -> Sequence[Pane]:
        """All of them: in a narrow window `tab` brings the next one into sight."""
        return [self.nodes, self.log_pane, self.sequences, self.hosts, self.outputs, self.speed, self.alarms]

    # --- where panes stand

    def on_resize(self, _event: events.Resize) -> None:
        """Another size, another arrangement."""
        self.place()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """In a narrow window the pane that has the focus is the one that is seen."""
        if isinstance(event.widget, Pane) and event.widget is not self.nodes:
            self._lower = event.widget
        self.place()

    def place(self) -> None:
        """Place the panes; does nothing where nothing changed."""
        width, height = self.size
        if not width or self.look is None:
            return
        focused = self.screen.focused
        alone = focused if (self.zoomed or height < _LOW) and focused in self.panes() else None
        counts = (len(self.nodes.rows), len(self.outputs.outputs), min(6, self.alarms.lines(_SIDE - 1)))
        laid = (width, height, alone, self._lower, *counts)
        if laid == self._laid:
            return
        self._laid = laid
        places: dict[Widget, tuple[int, int, int, int]] = {}
        if alone is not None or height < _LOW:
            places[alone or self.nodes] = (0, 0, width, height)
        else:
            side = _SIDE if width >= _WIDE else 0
            upper = max(3, min(counts[0] + 1, height * 3 // 5 if side else height // 2))
            places[self.nodes] = (0, 0, width - side, upper)
            lower = self.log_pane if side else self._lower or self.log_pane
            places[lower] = (0, upper, width - side, height - upper)
            if side:
                places |= self._beside(width - side + 1, side - 1, height, counts)
        for pane in self.panes():
            place = places.get(pane)
            pane.display = place is not None
            if place is not None:
                pane.styles.offset = Offset(place[0], place[1])
                pane.styles.width, pane.styles.height = place[2], place[3]

    def _beside(
        self, x: int, width: int, height: int, counts: tuple[int, int, int]
    ) -> dict[Widget, tuple[int, int, int, int]]:
        """The right side, from below: alarms, throughput, appender, hosts; sequences take the rest."""
        heights = {
            self.alarms: 1 + max(1, counts[2]), self.speed: max(3, min(9, height // 5)),
            self.outputs: 1 + max(1, min(6, counts[1])), self.hosts: max(3, min(10, height // 4)),
        }  # fmt: skip
        places: dict[Widget, tuple[int, int, int, int]] = {}
        bottom = height
        for pane, wanted in heights.items():
            taken = min(wanted, max(0, bottom - 4))
            bottom -= taken
            places[pane] = (x, bottom, width, taken)
        places[self.sequences] = (x, 0, width, bottom)
        return {pane: place for pane, place in places.items() if place[3] > 0}

    # --- what keys do here

    def act_zoom(self) -> None:
        """The focused pane alone, or all of them."""
        self.zoomed = not self.zoomed
        self.place()

    def act_drain(self) -> None:
        """The chosen nodes take nothing more, and end."""
        for name in self._chosen("drain"):
            self.console_app.order("drain", {"node": name})
        self.nodes.marks.clear()

    def act_restart(self) -> None:
        """The chosen nodes end in order, and new ones start."""
        for name in self._chosen("restart"):
            self.console_app.order("restart", {"node": name})
        self.nodes.marks.clear()

    def act_kill(self) -> None:
        """The marked nodes; with none marked: the run."""
        marked = sorted(str(key) for key in self.nodes.marks)
        self.console_app.confirm_kill(marked)

    def act_pause(self) -> None:
        """A sequence's intake where the focus is on one, else the run's."""
        row = self.sequences.row
        if self.screen.focused is self.sequences and row is not None:
            verb = "resume" if row.subject["paused"] else "pause"
            self.console_app.order(verb, {"sequence": row.subject["id"]})
        else:
            self.console_app.act_pause()

    def _chosen(self, verb: str) -> list[str]:
        if self.screen.focused is not self.nodes and not self.nodes.marks:
            self.console_app.say(f"{verb}: go to the nodes (tab), and choose one", "warning")
            return []
        names = [row.subject["id"] for row in self.nodes.chosen() if row.subject["state"] not in _ENDED]
        if not names:
            self.console_app.say(f"{verb}: no living node is chosen", "warning")
        return names

    def on_table_opened(self, event: Table.Opened) -> None:
        """A node's jobs, or a sequence's."""
        event.stop()
        told = event.row.subject
        node = event.table is self.nodes
        self.console_app.push_jobs(of_node(told["id"]) if node else of_sequence(told["group"], told["host"]))

    def on_log_pane_opened(self, event: LogPane.Opened) -> None:
        """The job a line is about."""
        event.stop()
        self.console_app.push_job_of(event.event)

    def on_table_moved(self, event: Table.Moved) -> None:
        """The log shows the node under the cursor, once the operator asked for one."""
        if event.table is self.nodes and self.log_pane.sieve.sources:
            self._log_of([event.table.row.subject["id"]] if event.table.row else [])

    def act_log_of(self) -> None:
        """The log of the chosen nodes, or of all."""
        names = [] if self.log_pane.sieve.sources else [row.subject["id"] for row in self.nodes.chosen()]
        self._log_of(names)

    def _log_of(self, names: list[str]) -> None:
        sieve = self.log_pane.sieve
        self.log_pane.sift(Sieve(sieve.level, frozenset(names), sieve.pattern, sieve.negated))
