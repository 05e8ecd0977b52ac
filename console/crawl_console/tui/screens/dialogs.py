"""Dialogs: confirm, quit, and the choice of columns. The harmless button has the focus."""

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from crawl_console.format import Span
from crawl_console.sanitize import clean
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.table import AnyColumn, Column, item_row


class Dialog(ModalScreen[str]):
    """A question with buttons; returns the id of the chosen button, at `esc` the last one's."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 66; max-width: 96%; height: auto; max-height: 96%; padding: 0 2;
        border: round $primary; background: $panel;
    }
    Dialog .lines { height: auto; margin: 1 0; }
    Dialog Horizontal { height: auto; align-horizontal: right; }
    Dialog Button { min-width: 6; margin-left: 2; padding: 0 1; }
    Dialog Button:focus { text-style: bold reverse; }
    Dialog.grave > Vertical { border: round $error; }
    """
    BINDINGS = [("left,shift+tab,h", "app.focus_previous", ""), ("right,tab,l", "app.focus_next", "")]  # noqa: RUF012

    def __init__(
        self, title: str, lines: Sequence[str], buttons: Sequence[tuple[str, str, str]], *, destructive: bool = False
    ) -> None:
        """`buttons`: key, id and label; the last one is harmless and has the focus."""
        super().__init__(classes="grave" if destructive else "")
        self._title = title
        self._lines = lines
        self._buttons = buttons

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(clean(self._title))
            yield Static(Content("\n".join(clean(line) for line in self._lines)), classes="lines", markup=False)
            with Horizontal():
                for key, id_, label in self._buttons:
                    yield Button(Content(f"{key} {clean(label)}"), id=id_, compact=True)

    def on_mount(self) -> None:
        self.query_one(f"#{self._buttons[-1][1]}", Button).focus()

    def on_key(self, event: object) -> None:
        pressed = getattr(event, "key", "")
        for key, id_, _ in self._buttons:
            if pressed == {"esc": "escape"}.get(key, key):
                event.stop()  # type: ignore[attr-defined]
                self.dismiss(id_)
                return
        if pressed in ("escape", "ctrl+c", "q"):
            event.stop()  # type: ignore[attr-defined]
            self.dismiss(self._buttons[-1][1])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id)


def confirm_dialog(title: str, lines: Sequence[str], yes: str, *, destructive: bool = False) -> Dialog:
    """A dialog that returns `yes` or `no`; Cancel has the focus."""
    return Dialog(title, lines, (("y", "yes", yes), ("n", "no", "Cancel")), destructive=destructive)


def kill_dialog(node: str, lines: Sequence[str]) -> Dialog:
    """A dialog that returns `node`, `run` or `no`; Cancel has the focus."""
    buttons = (("k", "node", f"Kill {node}"), ("w", "run", "Kill the whole run"), ("n", "no", "Cancel"))
    return Dialog("Kill", lines, buttons, destructive=True)


def quit_dialog(lines: Sequence[str]) -> Dialog:
    """A dialog that returns `detach`, `stop`, `kill` or `stay`."""
    return Dialog(
        "Quit the console",
        lines,
        (("d", "detach", "Detach"), ("s", "stop", "Stop"), ("k", "kill", "Kill"), ("esc", "stay", "Stay")),
    )


class _Choice(NamedTuple):
    column: AnyColumn
    is_shown: bool
    is_too_wide: bool
    """Whether the pane is too narrow for the column."""


def _describe_column(choice: _Choice) -> Span:
    note = f" (from {choice.column.min_pane_width} cells on)" if choice.is_too_wide else ""
    return choice.column.help + note, "dim"


class ColumnChoices(LineTable):
    COLUMNS: Sequence[Column[_Choice]] = (
        Column("SHOWN", 5, lambda choice: ("[x]", "good") if choice.is_shown else ("[ ]", "dim"), None, "or hidden"),
        Column("COLUMN", 12, lambda choice: (choice.column.title, "text"), None, "its heading"),
        Column("", 0, _describe_column, None, "what it says"),
    )
    always_show_cursor = True

    def action_mark(self) -> None:
        """Show or hide the column, as `enter` does."""
        self.action_open()


class ColumnsPanel(ModalScreen[None]):
    """`space` and `enter` show or hide a column; the choice is kept for the next start."""

    DEFAULT_CSS = """
    ColumnsPanel { align: center middle; }
    ColumnsPanel > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 90%; border: round $primary; background: $panel;
    }
    """
    BINDINGS = [("escape,q,vertical_line,ctrl+c", "dismiss", "")]  # noqa: RUF012

    def __init__(self, table: LineTable) -> None:
        super().__init__()
        self._table = table

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content("Columns")
            box.border_subtitle = Content("space shows or hides, esc closes")
            self.choices = ColumnChoices()
            self.choices.styles.height = len(self._table.COLUMNS) + 1
            yield self.choices

    def on_mount(self) -> None:
        self._update()
        self.choices.focus()

    def _update(self) -> None:
        width = self._table.size.width
        rows = []
        for column in self._table.COLUMNS:
            is_shown = column.title not in self._table.hidden_columns
            choice = _Choice(column, is_shown, column.min_pane_width > width)
            rows.append(item_row(self.choices.COLUMNS, column.title, choice))
        self.choices.show(rows)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        self._table.toggle_column(str(event.row.key))
        self._update()
