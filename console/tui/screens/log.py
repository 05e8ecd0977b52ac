"""Screen 6, Log: all that happened, with search, filter, level and follow."""

from textual.app import ComposeResult

from console.tui.screens.base import View
from console.tui.state.log_buffer import LogBuffer
from console.tui.state.source import PollResult, ViewQuery
from console.tui.widgets.log_view import LogPane


class LogView(View):
    """One log pane on the whole screen."""

    NAME = "log"
    READS_LOG = True
    SNAPSHOT_LIMIT = 0
    HINTS = (
        ("/", "search"), ("n N", "next, before"), ("&", "filter"), ("L", "level"), ("f", "follow"), ("w", "wrap"),
        ("↵", "job"), ("y", "copy"), ("?", "keys"), ("q", "quit"),
    )  # fmt: skip

    def __init__(self, tail: LogBuffer) -> None:
        super().__init__()
        self.log_buffer = tail

    def compose(self) -> ComposeResult:
        """The pane."""
        self.log_pane = LogPane(self.log_buffer)
        yield self.log_pane

    def breadcrumb(self) -> str:
        """Log."""
        return "Log"

    def view_query(self) -> ViewQuery | None:
        """The log's new lines."""
        return self.console_app.log_buffer.read_new

    def show(self, look: PollResult) -> None:
        """New lines."""
        self.last_poll = look
        self.log_pane.pull_lines()

    def on_log_pane_line_opened(self, event: LogPane.LineOpened) -> None:
        """The job a line is about."""
        event.stop()
        self.console_app.navigation.push_event_job(event.event)
