"""The console's app: the look, the views, the way between them. What keys do stands in views and in `deeds`."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from console.format import format_time
from console.sanitize import clean
from console.tui.actions import Actions
from console.tui.ascii_filter import AsciiFilter
from console.tui.bindings import ACT, KEYS, KEYS_BY_ID, SCREEN_NAMES
from console.tui.config import save_state
from console.tui.desktop import DesktopActions
from console.tui.navigation import Navigation
from console.tui.options import ConsoleOptions
from console.tui.quit import QuitFlow
from console.tui.screens.base import View
from console.tui.state.alerts import Alarm, current_alarms
from console.tui.state.control import ControlClient
from console.tui.state.log_buffer import LogBuffer
from console.tui.state.poller import Poller
from console.tui.state.rates import Rates
from console.tui.state.source import AcceptedDefs, DataSource, PollResult, ViewQuery
from console.tui.themes import THEMES, ThemeStyles, textual_theme
from console.tui.widgets.bars import AlarmBar, HintBar, Tabs
from console.tui.widgets.header import Header
from console.tui.widgets.line_canvas import Canvas
from console.tui.widgets.prompt import Prompt
from engine.errors import CrawlError

Clock = Callable[[], float]

_READ_ONLY_KEYS = ("mark", "mark_all")
_CSS = """
MainScreen { layout: vertical; background: $background; overflow: hidden; }
#body { height: 1fr; overflow: hidden; }
View { height: 100%; width: 100%; overflow: hidden; }
NodesView > Canvas { position: absolute; }
Header { height: 2; }
Tabs, AlarmBar, HintBar { height: 1; }
Prompt { height: 1; border: none; padding: 0 1; background: $panel; }
Prompt:focus { border: none; }
ToastRack { margin-bottom: 1; }
Toast { padding: 0 1; margin: 0; width: auto; max-width: 90%; }
.low Header { height: 1; }
.low Tabs { display: none; }
"""


class MainScreen(Screen[None], inherit_bindings=False):
    """The one screen below all dialogs: its keys are the console's alone."""


class Console(Navigation, Actions, QuitFlow, DesktopActions, App[int], inherit_bindings=False):
    """Built of a source of looks and of someone who carries orders; knows neither's way of doing so."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "crawl-console"
    AUTO_FOCUS = None
    NOTIFICATION_TIMEOUT = 4
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        Binding(key.keys, f"act('{key.id}')", key.description, id=key.id, show=False) for key in KEYS
    ]

    class Polled(Message):
        """A poll succeeded."""

        def __init__(self, look: PollResult) -> None:
            super().__init__()
            self.result = look

        def can_replace(self, message: Message) -> bool:
            """Only the newest look is shown, should several wait."""
            return isinstance(message, Console.Polled)

    class PollFailed(Message):
        """A poll failed."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.reason = why

    def __init__(
        self, setup: ConsoleOptions, source: DataSource, orders: ControlClient, clock: Clock = time.monotonic
    ) -> None:
        super().__init__()
        self.clock = clock
        self.options, self.control_client = setup, orders
        self.rates, self.log_buffer = Rates(), LogBuffer()
        self.last_poll: PollResult | None = None
        self.alarms: list[Alarm] = []
        self.views: dict[str, View] = {}
        self.view_stack: list[View] = []
        self.frozen = False
        self.signalled = False
        self.poll_failure: tuple[float, str] | None = None
        for name in THEMES:
            self.register_theme(textual_theme(name))
        self.theme_styles = ThemeStyles(setup.config.theme)
        self.theme = setup.config.theme
        if setup.ascii_only:
            self._filters.append(AsciiFilter())
        self.poller = Poller(
            source,
            setup.hertz,
            lambda look: self._post_if_running(self.Polled(look)),
            lambda why: self._post_if_running(self.PollFailed(why)),
            clock,
        )

    @property
    def accepted_defs(self) -> AcceptedDefs | None:
        """The def version in force."""
        return self.last_poll.accepted_defs if self.last_poll is not None else None

    def _post_if_running(self, message: Message) -> None:
        if self.is_running:
            self.post_message(message)

    def get_default_screen(self) -> MainScreen:
        """A screen without keys of its own."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Header, tabs, the view, alarms, hints."""
        self.header, self.tabs, self.alarm_bar, self.hints = Header(), Tabs(), AlarmBar(), HintBar()
        self.prompt = Prompt()
        self.header.rates = self.rates
        self.header.project = project_name(self.options.data)
        yield self.header
        yield self.tabs
        yield Container(id="body")
        yield self.alarm_bar
        yield self.prompt
        yield self.hints

    async def on_mount(self) -> None:
        """Begin to look."""
        self.alarm_bar.display = self.prompt.display = False
        self.set_keymap(self.options.config.keys)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._exit_on_signal, number)
            except (NotImplementedError, RuntimeError, ValueError):  # not the main thread, as in tests
                break
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # after ^z all is to be drawn
        self._adapt_height(self.size.height)
        self.switch_to(self.options.config.screen)
        self.run_in_thread(self.poller.run)
        self.set_interval(1.0, self._check_staleness)
        for problem in self.options.config.problems[:3]:
            self.show_toast(problem, "warning")

    def run_in_thread(self, work: Callable[[], Any]) -> None:
        """Do it on a thread of its own, which no exit waits for."""
        Thread(target=copy_context().run, args=(work,), daemon=True).start()

    def call_in_app(self, tell: Callable[..., Any], *told: Any) -> None:
        """Hand what such a thread found to the app, where it is still there."""
        with contextlib.suppress(RuntimeError):
            self.call_from_thread(tell, *told)

    def _exit_on_signal(self, number: int) -> None:
        self.signalled = True
        self.exit(return_code=128 + number)

    @property
    def unhandled_error(self) -> Exception | None:
        """What ended the console, where that was an error of its own."""
        return self._exception

    def _fatal_error(self) -> None:
        """Leave; the error is told below the restored screen, in one line."""
        self._close_messages_no_wait()

    def on_unmount(self) -> None:
        """No more looks; what the user likes is kept."""
        self.poller.stop()
        top = self.view_stack[0].NAME if self.view_stack else "nodes"
        save_state(self.options.config, theme=self.theme, screen=top)

    # --- looks

    def on_console_polled(self, message: Polled) -> None:
        """A new look: remember what it tells, and show it."""
        self.poll_failure = None
        self.last_poll = message.result
        self.rates.update(message.result)
        if message.result.requester is self.log_buffer:
            self.log_buffer.add(*message.result.view_data)
        self.handle_run_end(message.result)
        self._update_screen()

    def on_console_poll_failed(self, message: PollFailed) -> None:
        """The last good look stays, and its age is told."""
        self.poll_failure = (self.last_poll.at if self.last_poll else self.clock(), message.reason)
        self._update_bars()

    def _check_staleness(self) -> None:
        if self.last_poll is not None and self.poll_failure is None:
            overdue = self.clock() - self.last_poll.at - 2 / self.options.hertz
            if overdue > 2:
                self.poll_failure = (self.last_poll.at, "the database does not answer")
        if self.poll_failure is not None:
            self._update_bars()

    def _update_screen(self) -> None:
        self._update_bars()
        if not self.frozen and self.last_poll is not None and self.view_stack and self.view_stack[-1].is_mounted:
            self.view_stack[-1].show(self.last_poll)

    def _reload_note(self) -> str:
        """When the defs were accepted, where that was not at the start."""
        accepted = self.accepted_defs
        return f"reload {format_time(accepted.at)}" if accepted is not None and accepted.version > 1 else ""

    def update_now(self) -> None:
        """Show the last look again: what is wanted of it changed."""
        self._update_screen()

    def _update_bars(self) -> None:
        """Header, tabs, alarms and hints."""
        stale = self.clock() - self.poll_failure[0] if self.poll_failure else None
        if self.last_poll is not None:
            if not self.frozen:
                self.alarms = current_alarms(
                    self.last_poll, stale_seconds=stale, reason=self.poll_failure[1] if self.poll_failure else ""
                )
                self.header.last_poll = self.last_poll
                self.header.reload_note = self._reload_note()
            self.tabs.failed_count = self.last_poll.snapshot.jobs["failed"]
        self.header.badges = tuple(
            badge
            for badge, there in (
                ((f"stale {stale or 0:.0f} s", "bad"), stale is not None),
                (("FROZEN", "warn"), self.frozen),
                (("read-only", "accent"), self.options.read_only),
            )
            if there
        )
        self.alarm_bar.alarms = self.alarms
        if self.alarm_bar.display != bool(self.alarms):
            self.alarm_bar.display = bool(self.alarms)
        for canvas in (self.header, self.tabs, self.alarm_bar, self.hints):
            canvas.redraw()

    def log_query(self) -> ViewQuery:
        """The log's new lines, for views that show them."""
        return self.log_buffer.read_new

    # --- keys

    def action_act(self, name: str) -> None:
        """A key was pressed."""
        self.run_key(name)

    def run_key(self, name: str) -> None:
        """What a key does: whoever has the focus does it, else what holds that, else the app."""
        if self.options.read_only and KEYS_BY_ID[name].group == ACT and name not in _READ_ONLY_KEYS:
            self.show_toast("read-only: nothing can be ordered from here", "warning")
            return
        deed = self.prompt.close if name == "back" and self.prompt.display else self._find_action(name)
        if deed is None:
            self.show_toast(f"{KEYS_BY_ID[name].label}: {KEYS_BY_ID[name].description} — not here", "warning")
            return
        try:
            deed()
        except CrawlError as error:
            self.show_toast(f"{error.message}. {error.remedy}", "error")

    def _find_action(self, name: str) -> Callable[[], Any] | None:
        nodes: list[DOMNode] = []
        if self.focused is not None:
            nodes = [node for node in self.focused.ancestors_with_self if isinstance(node, (Canvas, View))]
        if self.view_stack and self.view_stack[-1] not in nodes:
            nodes.append(self.view_stack[-1])
        for node in (*nodes, self):
            deed: Callable[[], Any] | None = getattr(node, f"act_{name}", None)
            if deed is not None:
                return deed
        return partial(self.switch_to, name) if name in SCREEN_NAMES else None

    def show_toast(self, text: str, severity: Any = "information") -> None:
        """A toast."""
        self.notify(clean(text), severity=severity, markup=False)

    # --- the frame

    def on_resize(self, event: Any) -> None:
        """Low windows keep only what matters."""
        self._adapt_height(event.size.height)

    def _adapt_height(self, height: int) -> None:
        try:
            self.screen.set_class(height < 14, "low")
        except NoMatches:
            return

    def on_tabs_selected(self, message: Tabs.Selected) -> None:
        """A tab was clicked."""
        self.switch_to(message.screen_name)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A filter was typed."""
        self.prompt.submit(event.value)

    def act_theme(self) -> None:
        """The next theme."""
        names = list(THEMES)
        self.use_theme(names[(names.index(self.theme) + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        """Another theme."""
        self.theme, self.theme_styles = name, ThemeStyles(name)
        for canvas in self.query(Canvas):
            canvas.repaint()


def project_name(data: Path) -> str:
    """What tells one console from another: the data dir, or what it lies in where it is just called `data`."""
    whole = data.absolute()
    return whole.parent.name if whole.name == "data" else whole.name
