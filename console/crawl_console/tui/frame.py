"""The frame around the views: header and tabs above, prompt and hint bar below."""

from collections.abc import Iterator
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from crawl_console.alarm_book import AlarmBook
from crawl_console.crawl.source import PollResult
from crawl_console.format import format_time, project_name
from crawl_console.tui.widgets.bars import HintBar, Tabs
from crawl_console.tui.widgets.header import Header
from crawl_console.tui.widgets.prompt import Prompt


class Frame:
    """Builds the frame's widgets and keeps them up to date."""

    def __init__(self, data: Path) -> None:
        self.header = Header()
        self.header.project = project_name(data)
        self.tabs = Tabs()
        self.body = Container(id="body")
        self.hints = HintBar()
        self.prompt = Prompt(self.hints.show_problem, self.hints.show_label)
        self.prompt.display = False

    def widgets(self) -> Iterator[Widget]:
        yield from (self.header, self.tabs, self.body, self.prompt, self.hints)

    def update(
        self,
        poll: PollResult | None,
        alarms: AlarmBook,
        *,
        stale_seconds: float | None,
        frozen: bool,
        read_only: bool,
    ) -> None:
        """Show a poll result. A frozen header keeps its figures and changes its badges only."""
        if poll is not None and not frozen:
            self.header.last_poll = poll
            self.header.reload_note = _reload_note(poll)
            self.tabs.failed_count = poll.snapshot.jobs["failed"]
        self.header.alarms, self.header.open_alarms = alarms.alarms, alarms.open
        self.header.badges = tuple(
            badge
            for badge, active in (
                ((f"stale {stale_seconds or 0:.0f} s", "bad"), stale_seconds is not None),
                (("FROZEN", "warn"), frozen),
                (("read-only", "accent"), read_only),
            )
            if active
        )
        for canvas in (self.header, self.tabs, self.hints):
            canvas.redraw()


def _reload_note(poll: PollResult) -> str:
    accepted = poll.accepted_defs
    return f"reloaded {format_time(accepted.at)}" if accepted is not None and accepted.version > 1 else ""
