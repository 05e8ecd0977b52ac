"""The app: owns the frame, the collaborators, the polling, and keys that no view handles."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import Thread
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from crawl_console.alarm_book import AlarmBook
from crawl_console.client import list_alarms
from crawl_console.crawl.source import AcceptedDefs, DataSource, PollResult
from crawl_console.format import plural
from crawl_console.sanitize import clean
from crawl_console.tui.actions import Actions
from crawl_console.tui.bindings import KEYS, fallback_bindings, key_label, key_to_press, resolve_keymap
from crawl_console.tui.config import Config, save_state
from crawl_console.tui.desktop import DesktopActions
from crawl_console.tui.driver import TerminalDriver
from crawl_console.tui.frame import Frame
from crawl_console.tui.host import Answer
from crawl_console.tui.keys import UnhandledKeys, app_handlers
from crawl_console.tui.navigation import Navigation
from crawl_console.tui.options import ConsoleOptions
from crawl_console.tui.quit import QuitFlow
from crawl_console.tui.screens.help import KeyPanel
from crawl_console.tui.screens.palette import PaletteCommand, PalettePanel
from crawl_console.tui.state.control import ControlClient
from crawl_console.tui.state.log_buffer import LogBuffer
from crawl_console.tui.state.poller import Poller
from crawl_console.tui.themes import THEMES, AsciiFilter, ThemeStyles, textual_theme
from crawl_console.tui.widgets.bars import Tabs
from crawl_console.tui.widgets.line_canvas import Canvas
from crawl_engine.errors import CrawlError
from crawl_engine.model.run import Alarm

_MAX_NOTIFICATION_CHARS = 200
Clock = Callable[[], float]
_CSS = """
MainScreen { layout: vertical; background: $background; overflow: hidden; }
#body { height: 1fr; overflow: hidden; }
View { height: 100%; width: 100%; overflow: hidden; }
NodesView > Canvas { position: absolute; }
Header { height: 3; }
Tabs, HintBar { height: 1; }
Prompt { height: 1; border: none; padding: 0 1; background: $panel; }
Prompt:focus { border: none; }
ToastRack { margin-bottom: 2; }
Toast { padding: 0 1; margin: 0; width: auto; max-width: 90%; }
.low Header { height: 2; }
.low Tabs { display: none; }
"""


class Polled(Message, namespace="console"):
    def __init__(self, result: PollResult) -> None:
        super().__init__()
        self.result = result

    def can_replace(self, message: Message) -> bool:
        """Of several queued results only the newest is shown."""
        return isinstance(message, Polled)


class PollFailed(Message, namespace="console"):
    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


def announce(app: Any, alarms: Sequence[Alarm], config: Config) -> None:
    """Ring the bell, and send the worst of the alarms as a notification of the terminal (OSC 9)."""
    if not alarms:
        return
    worst = min(alarms, key=lambda alarm: alarm.level != "bad")
    if config.bell:
        app.bell()
    driver = getattr(app, "_driver", None)  # private: Textual has no public way to write an escape sequence
    if config.notify and driver is not None:
        driver.write(f"\x1b]9;crawl-console: {clean(worst.text)[:_MAX_NOTIFICATION_CHARS]}\x07")


class MainScreen(Screen[None], inherit_bindings=False):
    """The screen below all dialogs. It has no bindings: every key is the console's own."""


class Console(App[int], inherit_bindings=False):
    """Shows what a data source reads, and sends the operator's commands through a control client."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "crawl-console"
    AUTO_FOCUS = None
    NOTIFICATION_TIMEOUT = 4
    BINDINGS: ClassVar[list[BindingType]] = fallback_bindings()

    def __init__(
        self,
        options: ConsoleOptions,
        source: DataSource,
        control_client: ControlClient,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.clock = clock
        self.options = options
        self.log_buffer = LogBuffer()
        self.last_poll: PollResult | None = None
        self.alarm_book = AlarmBook()
        self.frozen = False
        self._toasts: dict[str, float] = {}
        self.signalled = False
        """Whether a signal ended the console."""
        self.goes_back = False
        """Whether the operator left it for the list of crawls."""
        self.poll_failure: tuple[float, str] | None = None
        """When the last good poll was, and why later ones failed."""
        for name in THEMES:
            self.register_theme(textual_theme(name))
        # NO_COLOR makes Textual turn red into a dark grey: `plain` marks failures without colour
        self.theme = "plain" if self.no_color else options.config.theme
        self.theme_styles = ThemeStyles(self.theme)
        self._ascii_filters = [AsciiFilter()] if options.ascii_only else []
        self.poller = Poller(source, options.hertz, self._post_result, self._post_failure, clock)
        self._frame = Frame(options.data)
        self.prompt = self._frame.prompt
        self.navigation = Navigation(
            self, poller=self.poller, body=self._frame.body, tabs=self._frame.tabs, hints=self._frame.hints
        )
        self.actions = Actions(self, control_client, self._frame.hints)
        self.desktop = DesktopActions(self)
        self.quit_flow = QuitFlow(self)
        self._unhandled_keys = UnhandledKeys(self, self.navigation, app_handlers(self))

    @property
    def accepted_defs(self) -> AcceptedDefs | None:
        return self.last_poll.accepted_defs if self.last_poll is not None else None

    @property
    def publishes_at_copy(self) -> bool:
        """Whether `y` publishes saved defs instead of copying."""
        return not self.options.read_only and self.last_poll is not None and self.last_poll.waiting_defs is not None

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def get_line_filters(self) -> Sequence[LineFilter]:
        no_ground = [NoColor()] if self.no_color else []  # else Textual paints greys
        return [*super().get_line_filters(), *no_ground, *self._ascii_filters]

    def compose(self) -> ComposeResult:
        yield from self._frame.widgets()

    async def on_mount(self) -> None:
        self.set_keymap(resolve_keymap(self.options.config.keys))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._exit_on_signal, number)
            except (NotImplementedError, RuntimeError, ValueError):  # not the main thread, as in tests
                break
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # after ^z draw everything again
        self._frame.header.jump_key = key_label("next_trouble", self.options.config.keys)
        if not self.options.read_only:
            self._frame.header.pause_key = key_label("pause", self.options.config.keys)
        self._adapt_height(self.size.height)
        self.navigation.switch_to(self.options.config.screen)
        self.run_in_thread(self.poller.run)
        self.set_interval(1.0, self._check_staleness)
        for problem in self.options.config.problems[:3]:
            self.show_toast(problem, "warning")

    def leave_for_list(self) -> None:
        """Go back to the list of crawls, if the console was opened from it."""
        if self.options.has_list:
            self.goes_back = True
            self.exit(return_code=0)

    def run_in_thread(self, work: Callable[[], Any]) -> None:
        """Run on a daemon thread: closing the console does not wait for it."""
        Thread(target=copy_context().run, args=(work,), daemon=True).start()

    def call_in_app(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Run a callback in the app's thread; from any thread. Does nothing once the app has closed."""
        self.call_later(callback, *arguments)

    def _exit_on_signal(self, number: int) -> None:
        self.signalled = True
        self.exit(return_code=128 + number)

    @property
    def unhandled_error(self) -> Exception | None:
        """The exception that ended the console."""
        return self._exception  # private: Textual has no public way; pyproject.toml pins its major version

    def _fatal_error(self) -> None:
        """Close without Textual's traceback: the caller prints one line. Private, as `unhandled_error`."""
        self._close_messages_no_wait()

    def on_unmount(self) -> None:
        self.poller.stop()
        stack = self.navigation.view_stack
        theme = self.options.config.theme if self.no_color else self.theme
        save_state(self.options.config, theme=theme, screen=stack[0].NAME if stack else "nodes")

    # --- polls

    def _post_result(self, result: PollResult) -> None:
        if self.is_running:
            self.post_message(Polled(result))

    def _post_failure(self, reason: str) -> None:
        if self.is_running:
            self.post_message(PollFailed(reason))

    def on_console_polled(self, message: Polled) -> None:
        self.poll_failure, before = None, self.last_poll
        self.last_poll = message.result
        if before is None or (before.supervisor_pid is None) != (message.result.supervisor_pid is None):
            self.navigation.refresh_breadcrumbs()  # of the keys, some need a supervisor
        if message.result.log is not None:
            self.log_buffer.add(*message.result.log)
        self.quit_flow.handle_run_end(message.result)
        self.update_screen()

    def on_console_poll_failed(self, message: PollFailed) -> None:
        """Keep the last good result, and show its age."""
        self.poll_failure = (self.last_poll.at if self.last_poll else self.clock(), message.reason)
        self._update_bars()

    def _check_staleness(self) -> None:
        if self.last_poll is not None and self.poll_failure is None:
            overdue = self.clock() - self.last_poll.at - 2 / self.options.hertz
            if overdue > 2:
                self.poll_failure = (self.last_poll.at, "the database does not answer")
        if self.poll_failure is not None:
            self._update_bars()

    def update_screen(self) -> None:
        """Show the last poll result again, in the bars and the top view."""
        self._update_bars()
        top = self.navigation.top
        if not self.frozen and self.last_poll is not None and top is not None and top.is_mounted:
            top.show(self.last_poll)

    def _update_bars(self) -> None:
        stale = self.clock() - self.poll_failure[0] if self.poll_failure else None
        alarms: list[Alarm] | None = None
        if self.last_poll is not None and not self.frozen:
            can_start = self.options.start_supervisor is not None
            alarms = [
                _with_keys(alarm, can_start=can_start, read_only=self.options.read_only)
                for alarm in list_alarms(self.last_poll.snapshot, None)
            ]
            if stale is not None and self.poll_failure is not None:
                reason = self.poll_failure[1] or "no answer from the database"
                alarms.insert(0, Alarm("stale", f"stale {stale:.0f} s: {reason}; retrying", "bad"))
        elif self.poll_failure and self.last_poll is None:
            alarms = [Alarm("stale", self.poll_failure[1], "bad")]
        if alarms is not None:
            announce(self, self.alarm_book.update(alarms), self.options.config)
        self._frame.update(
            self.last_poll, self.alarm_book, stale_seconds=stale, frozen=self.frozen,
            read_only=self.options.read_only,
        )  # fmt: skip

    def acknowledge_alarms(self, alarms: Sequence[Alarm] | None = None) -> None:
        """Acknowledge alarms, by default all; if all are acknowledged already, make them loud again."""
        chosen = self.alarm_book.alarms if alarms is None else alarms
        quiet = self.alarm_book.acknowledge(chosen)
        loud = self.alarm_book.acknowledge(chosen, acknowledged=False) if alarms and not quiet else []
        if quiet:
            self.show_toast(f"{plural(len(quiet), 'alarm')} acknowledged: quiet until the cause ends; A lists them")
        elif not loud:
            self.show_toast("no alarm to acknowledge; A lists the history")
        if not self.options.read_only:
            self.actions.store_acknowledged(quiet, loud)
        self.update_screen()

    # --- keys

    async def run_action(self, *arguments: Any, **named: Any) -> bool:
        """As Textual; an error that the operator can fix becomes a toast."""
        try:
            return await super().run_action(*arguments, **named)
        except CrawlError as error:
            self.show_toast(f"{error.message}. {error.remedy}", "error")
            return True

    def action_run_key(self, key_id: str) -> None:
        """Run a key that no focused widget or view handled."""
        self._unhandled_keys.run(key_id, focused=self.focused)

    def press_key(self, key_id: str) -> None:
        key = key_to_press(key_id, self.options.config.keys)
        if key is None:
            self._unhandled_keys.run(key_id, focused=None)
        else:
            self.simulate_key(key)

    def show_toast(self, text: str, severity: Any = "information") -> None:
        """Show a notification; one that is shown already is not stacked."""
        now, text = time.monotonic(), clean(text)
        self._toasts = {shown: at for shown, at in self._toasts.items() if now - at < self.NOTIFICATION_TIMEOUT}
        if text not in self._toasts:
            if len(self._toasts) > 1:
                self.clear_notifications()  # two at a time: more would cover what they report on
                self._toasts.clear()
            self._toasts[text] = now
            self.notify(text, severity=severity, markup=False)

    def show_note(self, text: str) -> None:
        """Show a text in the hint bar until an empty one is shown."""
        self._frame.hints.note = text
        self._frame.hints.redraw()

    # --- dialogs and the frame

    def open_dialog(self, dialog: ModalScreen[Answer], on_answer: Callable[[Answer | None], Any]) -> None:
        self.push_screen(dialog, on_answer)

    def show_keys(self) -> None:
        keys, ascii_only = self.options.config.keys, self.options.ascii_only
        self.push_screen(KeyPanel({key.id: key_label(key.id, keys, ascii_only=ascii_only) for key in KEYS}))

    def show_palette(self) -> None:
        from crawl_console.tui.screens.palette import palette_commands

        self.prompt.close()
        self.push_screen(PalettePanel(palette_commands(self)), self._run_palette_command)

    def _run_palette_command(self, command: PaletteCommand | None) -> None:
        if command is not None:
            self.call_later(command.action)  # once the palette is gone: the command may ask for text

    def toggle_freeze(self) -> None:
        self.frozen = not self.frozen
        self.update_screen()

    def on_resize(self, event: Any) -> None:
        self._adapt_height(event.size.height)

    def _adapt_height(self, height: int) -> None:
        """Low windows show no tabs, and of the header the run and its health."""
        try:
            self.screen.set_class(height < 14, "low")
        except NoMatches:
            return

    def on_tabs_selected(self, message: Tabs.Selected) -> None:
        self.navigation.switch_to(message.screen_name)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.prompt.submit(event.value)

    def use_next_theme(self) -> None:
        names = list(THEMES)
        self.use_theme(names[(names.index(self.theme) + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        self.theme, self.theme_styles = name, ThemeStyles(name)
        for canvas in self.query(Canvas):
            canvas.repaint()


def _with_keys(alarm: Alarm, *, can_start: bool, read_only: bool) -> Alarm:
    """The alarm with the keys of the console that help."""
    text = alarm.text
    if alarm.code in ("supervisor-lost", "jobs-ready") and can_start:
        text = text.replace("`crawl-console run` resumes", "R resumes")
    elif alarm.code == "defs-saved":
        text = text.replace(":", f" ({'5 shows' if read_only else 'y publishes, 5 shows'}):", 1)
    return replace(alarm, text=text)
