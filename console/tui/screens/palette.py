"""The command palette: type part of a command's name, enter runs it."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from console.tui.widgets.columns import Column
from console.tui.widgets.line_table import LineTable, Row

_MAX_SHOWN = 200


class PaletteCommand(Struct, frozen=True):
    """A command: its name, what it does, and the function that does it."""

    name: str
    description: str
    action: Callable[[], Any]


class PaletteCommandsTable(LineTable):
    """The matching commands."""

    COLUMNS = (Column("COMMAND", 34), Column("", 0))
    EMPTY = "no command matches"
    can_focus = False

    always_show_cursor = True
    """The cursor is shown although the input has the focus."""


class PalettePanel(ModalScreen[PaletteCommand]):
    """An input, and the matching commands below it."""

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
        """Input and table."""
        self.table = PaletteCommandsTable()
        with Vertical():
            yield Input(placeholder="a command: kill n2, retry failed on host …, theme clear", compact=True)
            yield self.table

    def on_mount(self) -> None:
        """Show all commands."""
        self.query_one(Input).focus()
        self._show_matches("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the matching commands."""
        self._show_matches(event.value)

    def _show_matches(self, text: str) -> None:
        matches = sorted(
            (rank, number)
            for number, command in enumerate(self._commands)
            if (rank := _rank(text.lower().split(), command)) is not None
        )
        rows = [
            Row(number, ((c.name, "strong"), (c.description, "dim")), (), c)
            for _, number in matches[:_MAX_SHOWN]
            for c in [self._commands[number]]
        ]
        self.table.show(rows, keep=False)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        for _ in range(abs(step)):
            self.table.action_down() if step > 0 else self.table.action_up()

    def on_input_submitted(self) -> None:
        """Run the command under the cursor."""
        row = self.table.row
        self.dismiss(row.subject if row else None)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Run a clicked command."""
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
