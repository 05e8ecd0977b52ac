"""The command palette: type a part of a name, enter does it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from console.tui.widgets.line_table import Column, Row, Table

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """One command: its words, what they mean, and the deed."""

    words: str
    does: str
    deed: Callable[[], Any]


class Choices(Table):
    """Those that match."""

    COLUMNS = (Column("COMMAND", 34), Column("", 0))
    EMPTY = "nothing is called so"
    can_focus = False

    lit = True
    """The cursor is shown although the line above has the focus."""


class PalettePanel(ModalScreen[Choice]):
    """A line to type in, and the commands that match below it."""

    DEFAULT_CSS = """
    PalettePanel { align: center top; }
    PalettePanel > Vertical { width: 90%; max-width: 100; height: 80%; margin-top: 1;
        border: round $primary; background: $panel; }
    PalettePanel Input { height: 1; border: none; background: $panel; }
    PalettePanel Choices { height: 1fr; }
    """
    BINDINGS = [  # noqa: RUF012
        ("escape,ctrl+c", "dismiss", ""), ("down,ctrl+n", "move(1)", ""), ("up,ctrl+p", "move(-1)", ""),
        ("pagedown", "move(10)", ""), ("pageup", "move(-10)", ""),
    ]  # fmt: skip

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        """Line and list."""
        self.table = Choices()
        with Vertical():
            yield Input(placeholder="a command: kill n2, retry failed on host …, theme clear", compact=True)
            yield self.table

    def on_mount(self) -> None:
        """All of them at first."""
        self.query_one(Input).focus()
        self._narrow("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Those that match."""
        self._narrow(event.value)

    def _narrow(self, text: str) -> None:
        found = sorted(
            (rank, number)
            for number, choice in enumerate(self._choices)
            if (rank := _rank(text.lower().split(), choice)) is not None
        )
        rows = [
            Row(number, ((c.words, "strong"), (c.does, "dim")), (), c)
            for _, number in found[:_SHOWN]
            for c in [self._choices[number]]
        ]
        self.table.show(rows, keep=False)

    def action_move(self, by: int) -> None:
        """The cursor."""
        for _ in range(abs(by)):
            self.table.act_down() if by > 0 else self.table.act_up()

    def on_input_submitted(self) -> None:
        """Do it."""
        row = self.table.row
        self.dismiss(row.subject if row else None)

    def on_table_opened(self, event: Table.Opened) -> None:
        """A click does it, too."""
        self.dismiss(event.row.subject)


def _rank(words: list[str], choice: Choice) -> int | None:
    """How well it matches, the lower the better; None: not at all. Each word, or its letters in order, is found."""
    name = choice.words.lower()
    rank = 0
    for word in words:
        at = name.find(word)
        if at >= 0:
            rank += 0 if at == 0 else 1
        elif word in choice.does.lower():
            rank += 3
        elif _in_order(word, name):
            rank += 6
        else:
            return None
    return rank


def _in_order(word: str, name: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in word)
