"""A view: what the screen shows between the header and the hint bar."""

import time
from collections.abc import Sequence
from typing import Any

from crawl_console.crawl.source import DataSource, PollResult, ViewQuery
from crawl_console.tui.widgets.console_widget import ConsoleWidget
from crawl_console.tui.widgets.line_canvas import Canvas
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.pane import Pane


class View(ConsoleWidget):
    """Names the data it needs, and shows poll results. Its `action_…` methods handle keys."""

    NAME = ""
    """The screen it belongs to."""
    HINTS: Sequence[tuple[str, str]] = ()
    """Its main keys, by id, and what they do here; the hint bar adds the keys of help and quit."""
    READ_INTERVAL: float | None = None
    """Seconds between two reads of its data; None: every poll reads them."""
    READS_LOG = False
    """Whether each poll reads new log lines, which the app adds to the log buffer."""
    SNAPSHOT_LIMIT = 60
    """How many sequences and hosts the snapshot holds for it."""

    can_focus = False
    wanted: Any = None
    """What the operator wants to see here: the view's next poll shows it, or says that it is not shown."""
    last_poll: PollResult | None = None
    _next_read_at = 0.0

    @property
    def shows_plan(self) -> bool:
        """Whether it shows what the saved defs that wait would change."""
        return False

    @property
    def typed_filter(self) -> str:
        """The job filter that the operator typed here, for saving."""
        return ""

    def breadcrumb(self) -> str:
        return self.NAME.capitalize()

    def view_query(self) -> ViewQuery | None:
        """What the poller reads for this view, beyond the snapshot; None: the next read is not due."""
        if time.monotonic() < self._next_read_at:
            return None
        return lambda source, snapshot: self.read(source, snapshot.run.seq) if snapshot.run is not None else None

    def read(self, source: DataSource, run: int) -> Any:
        """What the view shows of a run. Runs on the poller's thread and touches no widget."""

    def take_data(self, poll: PollResult) -> Any:
        """What a poll has read for this view; None: nothing."""
        self.last_poll = poll
        data = poll.view_data if poll.requester is self else None
        if self.READ_INTERVAL is not None:
            if data is not None:
                self._next_read_at = time.monotonic() + self.READ_INTERVAL
            self.console_app.navigation.refresh_query(at_once=False)
        return data

    def show_wanted(self, table: LineTable, *, was_read: bool) -> None:
        """Move the cursor to what the operator wants to see; if it was read and is not there, to no row."""
        if self.wanted is None:
            return
        if not table.select(self.wanted):
            if not was_read:
                return
            table.has_cursor = False
            self.console_app.show_toast(f"{self.wanted} is not among the rows shown", "warning")
        self.wanted = None

    def show(self, poll: PollResult) -> None:
        """Show a poll result; `poll.view_data` is this view's where `poll.requester` is the view."""
        raise NotImplementedError

    def activate(self) -> None:
        """Focus a pane, once the view is visible."""
        panes = list(self.panes())
        if panes and self.screen.focused not in panes:
            self.screen.set_focus(panes[0])

    def panes(self) -> Sequence[Pane]:
        """The panes that `tab` cycles through."""
        return [pane for pane in self.query(Pane) if pane.display]

    def action_filter(self) -> None:
        self.console_app.prompt.refuse("this view has no filter")

    def action_next_pane(self) -> None:
        self._move_focus(1)

    def action_previous_pane(self) -> None:
        self._move_focus(-1)

    def _move_focus(self, step: int) -> None:
        panes = list(self.panes())
        if panes:  # before a new view is activated, the first pane counts as focused
            index = panes.index(self.screen.focused) if self.screen.focused in panes else 0
            self.screen.set_focus(panes[(index + step) % len(panes)])

    def repaint(self) -> None:
        """Paint everything again, after a change of theme."""
        for canvas in self.query(Canvas):
            canvas.repaint()
