"""A view: what stands between the header and the hints. One of the seven screens, or what was drilled into."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.widget import Widget

from console.tui.state.source import PollResult, ViewQuery
from console.tui.widgets.line_canvas import Canvas
from console.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from console.tui.app import Console

HINTS = (("/", "filter"), ("?", "keys"), ("q", "quit"))


class View(Widget):
    """Says what it wants read, and shows looks. Its `act_…` methods are what keys do in it."""

    NAME = ""
    """Of the screen it belongs to."""
    HINTS: Sequence[tuple[str, str]] = HINTS
    READS_LOG = False
    """Whether what it reads are the log's new lines, which the app takes."""
    SNAPSHOT_LIMIT = 60
    """How many sequences and hosts a look shall hold for it."""

    can_focus = False
    last_poll: PollResult | None = None

    @property
    def console_app(self) -> "Console":
        """The app, by its own type."""
        return cast("Console", self.app)

    def breadcrumb(self) -> str:
        """What the breadcrumb says of it."""
        return self.NAME.capitalize()

    def view_query(self) -> ViewQuery | None:
        """What the poller shall read for it, beyond the snapshot."""
        return None

    def show(self, look: PollResult) -> None:
        """A new look; `look.found` is what `reading` gave, where `look.asked` is this view."""
        raise NotImplementedError

    def activate(self) -> None:
        """It has become visible."""
        panes = list(self.panes())
        if panes and self.screen.focused not in panes:
            self.screen.set_focus(panes[0])

    def panes(self) -> Sequence[Pane]:
        """What `tab` goes through."""
        return [pane for pane in self.query(Pane) if pane.display]

    def act_filter(self) -> None:
        """Nothing is filtered here."""
        self.console_app.show_toast("nothing can be filtered here")

    def act_back(self) -> None:
        """Out of here."""
        self.console_app.act_back()

    def act_next_pane(self) -> None:
        """The focus moves on."""
        self._move_focus(1)

    def act_previous_pane(self) -> None:
        """The focus moves back."""
        self._move_focus(-1)

    def _move_focus(self, step: int) -> None:
        panes = list(self.panes())
        if panes:
            at = panes.index(self.screen.focused) if self.screen.focused in panes else -1
            self.screen.set_focus(panes[(at + step) % len(panes)])

    def repaint(self) -> None:
        """The theme changed."""
        for canvas in self.query(Canvas):
            canvas.repaint()
