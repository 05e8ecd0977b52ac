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
from console.tui.actions import Deeds
from console.tui.ascii_filter import AsciiFilter
from console.tui.bindings import ACT, BY_ID, KEYS, SCREENS
from console.tui.config import remember
from console.tui.desktop import Outside
from console.tui.navigation import Ways
from console.tui.options import Setup
from console.tui.quit import Leaving
from console.tui.screens.base import View
from console.tui.state.alerts import Alarm, alarms
from console.tui.state.control import Orders
from console.tui.state.log_buffer import Tail
from console.tui.state.poller import Poller
from console.tui.state.rates import Paces
from console.tui.state.source import Accepted, Look, Reading, Source
from console.tui.themes import THEMES, Palette, textual_theme
from console.tui.widgets.bars import AlarmBar, Hints, Tabs
from console.tui.widgets.header import Header
from console.tui.widgets.line_canvas import Canvas
from console.tui.widgets.prompt import Prompt
from engine.errors import CrawlError

Clock = Callable[[], float]

_LOCAL = ("mark", "mark_all")
_CSS = """
Frame { layout: vertical; background: $background; overflow: hidden; }
#body { height: 1fr; overflow: hidden; }
View { height: 100%; width: 100%; overflow: hidden; }
NodesView > Canvas { position: absolute; }
Header { height: 2; }
Tabs, AlarmBar, Hints { height: 1; }
Prompt { height: 1; border: none; padding: 0 1; background: $panel; }
Prompt:focus { border: none; }
ToastRack { margin-bottom: 1; }
Toast { padding: 0 1; margin: 0; width: auto; max-width: 90%; }
.low Header { height: 1; }
.low Tabs { display: none; }
"""


class Frame(Screen[None], inherit_bindings=False):
    """The one screen below all dialogs: its keys are the console's alone."""


class Console(Ways, Deeds, Leaving, Outside, App[int], inherit_bindings=False):
    """Built of a source of looks and of someone who carries orders; knows neither's way of doing so."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "crawl-console"
    AUTO_FOCUS = None
    NOTIFICATION_TIMEOUT = 4
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        Binding(key.keys, f"act('{key.id}')", key.does, id=key.id, show=False) for key in KEYS
    ]

    class Seen(Message):
        """A poll succeeded."""

        def __init__(self, look: Look) -> None:
            super().__init__()
            self.look = look

        def can_replace(self, message: Message) -> bool:
            """Only the newest look is shown, should several wait."""
            return isinstance(message, Console.Seen)

    class Missed(Message):
        """A poll failed."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.why = why

    def __init__(self, setup: Setup, source: Source, orders: Orders, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self.clock = clock
        self.setup, self.orders = setup, orders
        self.paces, self.tail = Paces(), Tail()
        self.look: Look | None = None
        self.alarms: list[Alarm] = []
        self.views: dict[str, View] = {}
        self.stack: list[View] = []
        self.frozen = False
        self.signalled = False
        self.missed: tuple[float, str] | None = None
        for name in THEMES:
            self.register_theme(textual_theme(name))
        self.palette = Palette(setup.config.theme)
        self.theme = setup.config.theme
        if setup.ascii_only:
            self._filters.append(AsciiFilter())
        self.poller = Poller(
            source,
            setup.hertz,
            lambda look: self._post(self.Seen(look)),
            lambda why: self._post(self.Missed(why)),
            clock,
        )

    @property
    def accepted(self) -> Accepted | None:
        """The def version in force."""
        return self.look.accepted if self.look is not None else None

    def _post(self, message: Message) -> None:
        if self.is_running:
            self.post_message(message)

    def get_default_screen(self) -> Frame:
        """A screen without keys of its own."""
        return Frame(id="_default")

    def compose(self) -> ComposeResult:
        """Header, tabs, the view, alarms, hints."""
        self.header, self.tabs, self.alarm_bar, self.hints = Header(), Tabs(), AlarmBar(), Hints()
        self.prompt = Prompt()
        self.header.paces = self.paces
        self.header.project = project_name(self.setup.data)
        yield self.header
        yield self.tabs
        yield Container(id="body")
        yield self.alarm_bar
        yield self.prompt
        yield self.hints

    async def on_mount(self) -> None:
        """Begin to look."""
        self.alarm_bar.display = self.prompt.display = False
        self.set_keymap(self.setup.config.keys)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._leave_by, number)
            except (NotImplementedError, RuntimeError, ValueError):  # not the main thread, as in tests
                break
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # after ^z all is to be drawn
        self._fit(self.size.height)
        self.go(self.setup.config.screen)
        self.aside(self.poller.run)
        self.set_interval(1.0, self._mind_staleness)
        for problem in self.setup.config.problems[:3]:
            self.say(problem, "warning")

    def aside(self, work: Callable[[], Any]) -> None:
        """Do it on a thread of its own, which no exit waits for."""
        Thread(target=copy_context().run, args=(work,), daemon=True).start()

    def aside_told(self, tell: Callable[..., Any], *told: Any) -> None:
        """Hand what such a thread found to the app, where it is still there."""
        with contextlib.suppress(RuntimeError):
            self.call_from_thread(tell, *told)

    def _leave_by(self, number: int) -> None:
        self.signalled = True
        self.exit(return_code=128 + number)

    @property
    def fault(self) -> Exception | None:
        """What ended the console, where that was an error of its own."""
        return self._exception

    def _fatal_error(self) -> None:
        """Leave; the error is told below the restored screen, in one line."""
        self._close_messages_no_wait()

    def on_unmount(self) -> None:
        """No more looks; what the user likes is kept."""
        self.poller.stop()
        top = self.stack[0].NAME if self.stack else "nodes"
        remember(self.setup.config, theme=self.theme, screen=top)

    # --- looks

    def on_console_seen(self, message: Seen) -> None:
        """A new look: remember what it tells, and show it."""
        self.missed = None
        self.look = message.look
        self.paces.note(message.look)
        if message.look.asked is self.tail:
            self.tail.take(*message.look.found)
        self.note_end(message.look)
        self._show()

    def on_console_missed(self, message: Missed) -> None:
        """The last good look stays, and its age is told."""
        self.missed = (self.look.at if self.look else self.clock(), message.why)
        self._show_frame()

    def _mind_staleness(self) -> None:
        if self.look is not None and self.missed is None:
            overdue = self.clock() - self.look.at - 2 / self.setup.hertz
            if overdue > 2:
                self.missed = (self.look.at, "the database does not answer")
        if self.missed is not None:
            self._show_frame()

    def _show(self) -> None:
        self._show_frame()
        if not self.frozen and self.look is not None and self.stack and self.stack[-1].is_mounted:
            self.stack[-1].show(self.look)

    def _accepted_when(self) -> str:
        """When the defs were accepted, where that was not at the start."""
        accepted = self.accepted
        return f"reload {format_time(accepted.at)}" if accepted is not None and accepted.version > 1 else ""

    def show_now(self) -> None:
        """Show the last look again: what is wanted of it changed."""
        self._show()

    def _show_frame(self) -> None:
        """Header, tabs, alarms and hints."""
        stale = self.clock() - self.missed[0] if self.missed else None
        if self.look is not None:
            if not self.frozen:
                self.alarms = alarms(self.look, stale=stale, why=self.missed[1] if self.missed else "")
                self.header.look = self.look
                self.header.reloaded = self._accepted_when()
            self.tabs.failed = self.look.snapshot.jobs["failed"]
        self.header.badges = tuple(
            badge
            for badge, there in (
                ((f"stale {stale or 0:.0f} s", "bad"), stale is not None),
                (("FROZEN", "warn"), self.frozen),
                (("read-only", "accent"), self.setup.read_only),
            )
            if there
        )
        self.alarm_bar.alarms = self.alarms
        if self.alarm_bar.display != bool(self.alarms):
            self.alarm_bar.display = bool(self.alarms)
        for canvas in (self.header, self.tabs, self.alarm_bar, self.hints):
            canvas.redraw()

    def log_reading(self) -> Reading:
        """The log's new lines, for views that show them."""
        return self.tail.reading

    # --- keys

    def action_act(self, name: str) -> None:
        """A key was pressed."""
        self.do(name)

    def do(self, name: str) -> None:
        """What a key does: whoever has the focus does it, else what holds that, else the app."""
        if self.setup.read_only and BY_ID[name].group == ACT and name not in _LOCAL:
            self.say("read-only: nothing can be ordered from here", "warning")
            return
        deed = self.prompt.close if name == "back" and self.prompt.display else self._deed(name)
        if deed is None:
            self.say(f"{BY_ID[name].shown}: {BY_ID[name].does} — not here", "warning")
            return
        try:
            deed()
        except CrawlError as error:
            self.say(f"{error.what}. {error.remedy}", "error")

    def _deed(self, name: str) -> Callable[[], Any] | None:
        nodes: list[DOMNode] = []
        if self.focused is not None:
            nodes = [node for node in self.focused.ancestors_with_self if isinstance(node, (Canvas, View))]
        if self.stack and self.stack[-1] not in nodes:
            nodes.append(self.stack[-1])
        for node in (*nodes, self):
            deed: Callable[[], Any] | None = getattr(node, f"act_{name}", None)
            if deed is not None:
                return deed
        return partial(self.go, name) if name in SCREENS else None

    def say(self, text: str, severity: Any = "information") -> None:
        """A toast."""
        self.notify(clean(text), severity=severity, markup=False)

    # --- the frame

    def on_resize(self, event: Any) -> None:
        """Low windows keep only what matters."""
        self._fit(event.size.height)

    def _fit(self, height: int) -> None:
        try:
            self.screen.set_class(height < 14, "low")
        except NoMatches:
            return

    def on_tabs_chosen(self, message: Tabs.Chosen) -> None:
        """A tab was clicked."""
        self.go(message.screen_name)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A filter was typed."""
        self.prompt.submit(event.value)

    def act_theme(self) -> None:
        """The next theme."""
        names = list(THEMES)
        self.use_theme(names[(names.index(self.theme) + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        """Another theme."""
        self.theme, self.palette = name, Palette(name)
        for canvas in self.query(Canvas):
            canvas.repaint()


def project_name(data: Path) -> str:
    """What tells one console from another: the data dir, or what it lies in where it is just called `data`."""
    whole = data.absolute()
    return whole.parent.name if whole.name == "data" else whole.name
