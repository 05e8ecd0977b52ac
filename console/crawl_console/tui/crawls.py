"""The list of several crawls: one line for each data dir; `enter` chooses one."""

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor

from crawl_console.client import list_alarms, supervisor_alarm
from crawl_console.crawl.source import DataSource, PollResult, poll
from crawl_console.crawl.status import describe_unreadable, require_folder
from crawl_console.format import plural, project_name
from crawl_console.tui.config import Config
from crawl_console.tui.driver import TerminalDriver
from crawl_console.tui.options import ConsoleOptions
from crawl_console.tui.themes import THEMES, AsciiFilter, ThemeStyles, textual_theme
from crawl_console.tui.widgets.bars import HintBar
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.crawl_table import CRAWL_COLUMNS, crawl_row
from crawl_console.words.table import Row
from crawl_engine.errors import CrawlError

_CSS = """
CrawlList { background: $background; overflow: hidden; }
Title, HintBar { height: 1; }
CrawlTable { height: 1fr; }
"""
_TABLE_KEYS = ("up", "down", "page_up", "page_down", "top", "bottom", "open", "sort", "reverse")


class CrawlState(Struct, frozen=True):
    """What one data dir has. `error`: why it cannot be read; the rest is then what was read last, or None."""

    data: Path
    poll: PollResult | None = None
    alarms: int = 0
    last_success: float | None = None
    error: str = ""


class CrawlReader:
    """Reads several data dirs, one after another on one thread, with a connection for each."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._sources = {folder: DataSource(folder) for folder in folders}

    def read(self) -> list[CrawlState]:
        """The state of each, in their order. A data dir that cannot be read is opened again at the next time."""
        return [self._read(data, source) for data, source in self._sources.items()]

    def close(self) -> None:
        for source in self._sources.values():
            source.close()

    def _read(self, data: Path, source: DataSource) -> CrawlState:
        try:
            require_folder(data)
            result = poll(source, 0)
            if result.snapshot.run is None:
                return CrawlState(data, result)
            alarms = list_alarms(result.snapshot, supervisor_alarm(data, result.snapshot))
            loud = sum(not alarm.acknowledged for alarm in alarms)
            return CrawlState(data, result, loud, source.last_success())
        except (CrawlError, OSError) as error:
            source.close()
            return CrawlState(data, error=describe_unreadable(data, error))


class CrawlTable(LineTable):
    """One line for each crawl; its subject is the state."""

    COLUMNS = CRAWL_COLUMNS
    EMPTY = "no data directory"
    always_show_cursor = True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """The keys of a table that need a run have no effect here."""
        return action in _TABLE_KEYS


class Title(Canvas):
    """The first line: how many crawls there are, how many run, and their alarms."""

    states: Sequence[CrawlState] = ()

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        running = sum(state.poll is not None and state.poll.is_live for state in self.states)
        alarms = sum(state.alarms for state in self.states)
        unread = sum(bool(state.error) for state in self.states)
        text = f"  {plural(len(self.states), 'crawl')}, {running} running"
        left = [(" crawl-console", "title"), (text, "text"), (f", {unread} not readable" if unread else "", "bad")]
        right = f"! {alarms} " if alarms else ""
        gap = " " * max(1, width - sum(len(part) for part, _ in left) - len(right))
        return [Line((*left, (gap, ""), (right, "warn")), "bar")]


class CrawlList(App[Path], inherit_bindings=False):
    """Returns the chosen data dir, None if the operator left. `selected`: the line of the cursor at first."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "crawl-console"
    AUTO_FOCUS = "CrawlTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,escape", "leave", show=False),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(
        self, folders: Sequence[Path], config: Config, hertz: float, *, selected: Path | None = None,
        ascii_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(driver_class=TerminalDriver)
        for name in THEMES:
            self.register_theme(textual_theme(name))
        self.theme = "plain" if self.no_color else config.theme
        self.theme_styles = ThemeStyles(self.theme)
        self.options = ConsoleOptions(
            data=folders[0], defs=Path("defs"), hertz=hertz, config=config, read_only=True, ascii_only=ascii_only
        )
        self.signalled = False
        self._reader = CrawlReader(folders)
        self._selected = selected
        self._stopped = Event()
        self._title, self._table, self._hints = Title(), CrawlTable(), HintBar()

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = [*super().get_line_filters(), *([NoColor()] if self.no_color else [])]
        return [*filters, *([AsciiFilter()] if self.options.ascii_only else [])]

    def compose(self) -> ComposeResult:
        self._hints.hints = [("enter", "open"), ("s", "sort"), ("q", "quit")]
        yield from (self._title, self._table, self._hints)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, self._exit_on_signal, number)
        Thread(target=self._poll, daemon=True).start()

    def on_unmount(self) -> None:
        self._stopped.set()

    def show_note(self, text: str) -> None:
        """Show a text in the hint bar until an empty one is shown."""
        self._hints.note = text
        self._hints.redraw()

    def update_screen(self) -> None:
        """Sort the rows again, after a key."""
        self._show(self._title.states)

    def action_leave(self) -> None:
        self.exit()

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        state: CrawlState = event.row.subject
        if state.error:
            self.notify(f"{state.data}: {state.error}", severity="error", markup=False)
        else:
            self.exit(state.data)

    def _exit_on_signal(self, number: int) -> None:
        self.signalled = True
        self.exit(return_code=128 + number)

    def _poll(self) -> None:
        try:
            while not self._stopped.is_set():
                states = self._reader.read()
                if not self._stopped.is_set():
                    self.call_later(self._show, states)
                self._stopped.wait(max(0.5, 1 / self.options.hertz))
        finally:
            self._reader.close()

    def _show(self, states: Sequence[CrawlState]) -> None:
        self._title.states = states
        self._title.redraw()
        self._table.show([_row(state) for state in states])
        if self._selected is not None:
            self._table.select(str(self._selected))
            self._selected = None
        self._table.redraw()


def _row(state: CrawlState) -> Row:
    row = crawl_row(project_name(state.data), state.data, state.poll, state.alarms, state.last_success, state.error)
    return replace(row, subject=state)
