"""The command palette: type a part of a name, enter does it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from console.tui.widgets.line_table import Column, LineTable, Row

_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """One command: its words, what they mean, and the deed."""

    name: str
    description: str
    action: Callable[[], Any]


class PaletteCommandsTable(LineTable):
    """Those that match."""

    COLUMNS = (Column("COMMAND", 34), Column("", 0))
    EMPTY = "nothing is called so"
    can_focus = False

    always_show_cursor = True
    """The cursor is shown although the line above has the focus."""


class PalettePanel(ModalScreen[PaletteCommand]):
    """A line to type in, and the commands that match below it."""

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

    def __init__(self, choices: Sequence[PaletteCommand]) -> None:
        super().__init__()
        self._commands = choices

    def compose(self) -> ComposeResult:
        """Line and list."""
        self.table = PaletteCommandsTable()
        with Vertical():
            yield Input(placeholder="a command: kill n2, retry failed on host …, theme clear", compact=True)
            yield self.table

    def on_mount(self) -> None:
        """All of them at first."""
        self.query_one(Input).focus()
        self._show_matches("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Those that match."""
        self._show_matches(event.value)

    def _show_matches(self, text: str) -> None:
        found = sorted(
            (rank, number)
            for number, choice in enumerate(self._commands)
            if (rank := _rank(text.lower().split(), choice)) is not None
        )
        rows = [
            Row(number, ((c.name, "strong"), (c.description, "dim")), (), c)
            for _, number in found[:_MAX_SHOWN]
            for c in [self._commands[number]]
        ]
        self.table.show(rows, keep=False)

    def action_move(self, by: int) -> None:
        """The cursor."""
        for _ in range(abs(by)):
            self.table.action_down() if by > 0 else self.table.action_up()

    def on_input_submitted(self) -> None:
        """Do it."""
        row = self.table.row
        self.dismiss(row.subject if row else None)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """A click does it, too."""
        self.dismiss(event.row.subject)


def _rank(words: list[str], choice: PaletteCommand) -> int | None:
    """How well it matches, the lower the better; None: not at all. Each word, or its letters in order, is found."""
    name = choice.name.lower()
    rank = 0
    for word in words:
        at = name.find(word)
        if at >= 0:
            rank += 0 if at == 0 else 1
        elif word in choice.description.lower():
            rank += 3
        elif _is_subsequence(word, name):
            rank += 6
        else:
            return None
    return rank


def _is_subsequence(word: str, name: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in word)
