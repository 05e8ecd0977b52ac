"""Screen 6, Log: all events, with search, filter, level and follow."""

from textual.app import ComposeResult

from crawl_console.crawl.source import PollResult, ViewQuery
from crawl_console.tui.screens.base import View
from crawl_console.tui.state.log_buffer import LogBuffer
from crawl_console.tui.widgets.log_view import LogPane


class LogView(View):
    NAME = "log"
    READS_LOG = True
    SNAPSHOT_LIMIT = 0
    HINTS = (
        ("filter", "search"), ("next_match", "next"), ("previous_match", "previous"), ("log_filter", "filter"),
        ("level", "level"), ("follow", "follow"), ("wrap", "wrap"), ("open", "job"), ("copy", "copy"),
    )  # fmt: skip

    def __init__(self, log_buffer: LogBuffer) -> None:
        super().__init__()
        self.log_buffer = log_buffer

    def compose(self) -> ComposeResult:
        self.log_pane = LogPane(self.log_buffer)
        yield self.log_pane

    def view_query(self) -> ViewQuery | None:
        return None

    def show(self, poll: PollResult) -> None:
        self.last_poll = poll
        self.log_pane.failed_count = poll.snapshot.jobs["failed"]
        self.log_pane.pull_lines()
