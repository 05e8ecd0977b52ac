"""The command palette: keys by name, and actions on current nodes, hosts, sequences and defs."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from crawl_console.filter_syntax import parse
from crawl_console.tui.bindings import ACT, KEYS, QUIT, SCREEN_NAMES
from crawl_console.tui.host import AppHost
from crawl_console.tui.screens import INSTALLED_SCREENS
from crawl_console.tui.themes import THEMES
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.filters import host_filter, state_filter
from crawl_console.words.table import Column, item_row
from crawl_engine.store.read.snapshot import Snapshot

_MAX_SHOWN = 200


_MAX_HOSTS = 200
_OFFERED_KEYS = ("help", "freeze", "zoom", "export", "theme", "filter")
_ENDED = ("TERMINATED", "DEAD", "FAILED")


class PaletteCommand(Struct, frozen=True):
    name: str
    description: str
    action: Callable[[], Any]


class PaletteCommandsTable(LineTable):
    COLUMNS: Sequence[Column[PaletteCommand]] = (
        Column("COMMAND", 34, lambda command: (command.name, "strong"), None, "what is typed"),
        Column("", 0, lambda command: (command.description, "dim"), None, "what it does"),
    )
    EMPTY = "no command matches"
    can_focus = False

    always_show_cursor = True
    """The cursor is shown although the input has the focus."""


class PalettePanel(ModalScreen[PaletteCommand]):
    DEFAULT_CSS = """
    PalettePanel { align: center top; }
    PalettePanel > Vertical { width: 90%; max-width: 100; height: 80%; margin-top: 1;
        border: round $primary; background: $panel; }
    PalettePanel Input { height: 1; border: none; background: $panel; }
    PalettePanel PaletteCommandsTable { height: 1fr; }
    """
    BINDINGS = [  # noqa: RUF012
        ("escape,ctrl+c", "dismiss", ""), ("down,ctrl+n", "move(1)", ""), ("up,ctrl+p", "move(-1)", ""),
        ("pagedown", "move(10)", ""), ("pageup", "move(-10)", ""),
    ]  # fmt: skip

    def __init__(self, commands: Sequence[PaletteCommand]) -> None:
        super().__init__()
        self._commands = commands

    def compose(self) -> ComposeResult:
        self.table = PaletteCommandsTable()
        with Vertical():
            yield Input(placeholder="a command: kill n2, retry failed on host …, theme clear", compact=True)
            yield self.table

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._show_matches("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show_matches(event.value)

    def _show_matches(self, text: str) -> None:
        matches = sorted(
            (rank, number)
            for number, command in enumerate(self._commands)
            if (rank := _rank(text.lower().split(), command)) is not None
        )
        rows = [
            item_row(self.table.COLUMNS, number, self._commands[number], self._commands[number])
            for _, number in matches[:_MAX_SHOWN]
        ]
        self.table.show(rows, keep=False)

    def action_move(self, step: int) -> None:
        for _ in range(abs(step)):
            self.table.action_down() if step > 0 else self.table.action_up()

    def on_input_submitted(self) -> None:
        row = self.table.row
        self.dismiss(row.subject if row else None)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        self.dismiss(event.row.subject)


def _rank(words: list[str], command: PaletteCommand) -> int | None:
    """How well a command matches, lower is better; None if a word, or its letters in order, is missing."""
    name = command.name.lower()
    rank = 0
    for word in words:
        at = name.find(word)
        if at >= 0:
            rank += 0 if at == 0 else 1
        elif word in command.description.lower():
            rank += 3
        elif _is_subsequence(word, name):
            rank += 6
        else:
            return None
    return rank


def _is_subsequence(word: str, name: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in word)


def palette_commands(app: AppHost) -> list[PaletteCommand]:
    """All commands that apply now."""
    commands = [*_screen_commands(app), *_key_commands(app), *_theme_commands(app), *_filter_commands(app)]
    if app.last_poll is not None:
        snapshot = app.last_poll.snapshot
        commands += _view_commands(app, snapshot)
        if not app.options.read_only:
            commands += _node_commands(app, snapshot)
            commands += _sequence_commands(app, snapshot)
            commands += _retry_commands(app, snapshot)
    return commands


def _screen_commands(app: AppHost) -> Iterator[PaletteCommand]:
    for number, name in enumerate(SCREEN_NAMES, 1):
        yield PaletteCommand(f"go {name}", f"screen {number}", partial(app.navigation.switch_to, name))
    for name, origin in INSTALLED_SCREENS.installed():
        yield PaletteCommand(f"go {name}", f"screen of {origin}", partial(app.navigation.switch_to, name))


def _key_commands(app: AppHost) -> Iterator[PaletteCommand]:
    for key in KEYS:
        offered = key.group in (ACT, QUIT) or key.id in _OFFERED_KEYS
        if offered and not (app.options.read_only and key.group == ACT):
            yield PaletteCommand(
                key.id.replace("_", " "), f"{key.description}  ({key.label})", partial(app.press_key, key.id)
            )


def _theme_commands(app: AppHost) -> Iterator[PaletteCommand]:
    for name in THEMES:
        yield PaletteCommand(f"theme {name}", "colours", partial(app.use_theme, name))


def _filter_commands(app: AppHost) -> Iterator[PaletteCommand]:
    """Saved filters of jobs: show, save, forget."""
    filters, typed = app.options.config.filters, app.navigation.typed_filter
    if typed:

        def save(name: str) -> None:
            if name.strip():
                filters[name.strip()] = typed
                app.show_toast(f"filter {name.strip()}: {typed}; `:` shows it by its name")

        yield PaletteCommand(
            "save filter as", typed, partial(app.prompt.ask, "name of the filter", "", save)
        )  # fmt: skip
    for name, text in filters.items():
        yield PaletteCommand(f"filter {name}", text, partial(_show_filter, app, text))
        yield PaletteCommand(f"forget filter {name}", text, partial(filters.pop, name, None))


def _show_filter(app: AppHost, text: str) -> None:
    app.navigation.push_jobs(parse(text))


def _view_commands(app: AppHost, snapshot: Snapshot) -> Iterator[PaletteCommand]:
    go = app.navigation
    yield PaletteCommand("summary", "totals, files, failures by reason", go.show_summary)
    for state in ("ready", "taken", "done", "failed", "skipped", "incomplete"):
        yield PaletteCommand(f"jobs {state}", f"jobs with state:{state}", partial(go.push_jobs, state_filter(state)))
    for host in snapshot.hosts[:_MAX_HOSTS]:
        yield PaletteCommand(
            f"jobs on {host.host}", "all jobs of the host", partial(go.push_jobs, host_filter(host.host))
        )
    if app.accepted_defs is not None:
        for name in app.accepted_defs.definitions.files:
            yield PaletteCommand(f"open def {name}", "in $EDITOR", partial(app.desktop.edit_file, (Path(name), 1)))


def _node_commands(app: AppHost, snapshot: Snapshot) -> Iterator[PaletteCommand]:
    send = app.actions.send_command
    yield PaletteCommand("kill the run", "immediately; asks first", partial(app.actions.confirm_kill, []))
    for node in snapshot.nodes:
        if node.state not in _ENDED:
            yield PaletteCommand(
                f"drain {node.id}", "finish its jobs, then stop", partial(send, "drain", {"node": node.id})
            )
            yield PaletteCommand(
                f"restart {node.id}", "drain it and start another", partial(send, "restart", {"node": node.id})
            )
            yield PaletteCommand(
                f"kill {node.id}", "immediately; asks first", partial(app.actions.confirm_kill, [node.id])
            )


def _sequence_commands(app: AppHost, snapshot: Snapshot) -> Iterator[PaletteCommand]:
    for sequence in snapshot.sequences[:_MAX_HOSTS]:
        verb = "resume" if sequence.paused else "pause"
        yield PaletteCommand(
            f"{verb} {sequence.group}@{sequence.host}",
            "one sequence",
            partial(app.actions.toggle_sequence, sequence),
        )


def _retry_commands(app: AppHost, snapshot: Snapshot) -> Iterator[PaletteCommand]:
    yield PaletteCommand(
        "retry failed", "all failed jobs; asks first", partial(app.actions.retry, [], state_filter("failed"))
    )
    for host in snapshot.hosts[:_MAX_HOSTS]:
        failed = host_filter(host.host, "failed")
        yield PaletteCommand(f"retry failed on host {host.host}", "asks first", partial(app.actions.retry, [], failed))
