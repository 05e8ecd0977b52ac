"""Screen 6, Log: all that happened, with search, filter, level and follow."""

from textual.app import ComposeResult

from console.tui.screens.base import View
from console.tui.state.log_buffer import Tail
from console.tui.state.source import Look, Reading
from console.tui.widgets.log_view import LogPane


class LogView(View):
    """One log pane on the whole screen."""

    NAME = "log"
    READS_LOG = True
    SHOWN = 0
    HINTS = (
        ("/", "search"), ("n N", "next, before"), ("&", "filter"), ("L", "level"), ("f", "follow"), ("w", "wrap"),
        ("↵", "job"), ("y", "copy"), ("?", "keys"), ("q", "quit"),
    )  # fmt: skip

    def __init__(self, tail: Tail) -> None:
        super().__init__()
        self.tail = tail

    def compose(self) -> ComposeResult:
        """The pane."""
        self.log_pane = LogPane(self.tail)
        yield self.log_pane

    def crumb(self) -> str:
        """Log."""
        return "Log"

    def reading(self) -> Reading | None:
        """The log's new lines."""
        return self.console_app.log_reading()

    def show(self, look: Look) -> None:
        """New lines."""
        self.look = look
        self.log_pane.take()

    def on_log_pane_opened(self, event: LogPane.Opened) -> None:
        """The job a line is about."""
        event.stop()
        self.console_app.push_job_of(event.event)
