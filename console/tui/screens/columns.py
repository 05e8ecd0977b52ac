"""The panel that chooses the columns of a table."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.tui.widgets.columns import Column
from console.tui.widgets.line_table import LineTable, Row


class ColumnChoices(LineTable):
    """One row a column of the table."""

    COLUMNS = (Column("SHOWN", 5), Column("COLUMN", 20), Column("", 0))
    always_show_cursor = True

    def action_mark(self) -> None:
        """Show or hide the column, as `enter` does."""
        self.action_open()


class ColumnsPanel(ModalScreen[None]):
    """`space` and `enter` show or hide a column; the choice is kept for the next start."""

    DEFAULT_CSS = """
    ColumnsPanel { align: center middle; }
    ColumnsPanel > Vertical {
        width: 50; max-width: 96%; height: auto; max-height: 90%; border: round $primary; background: $panel;
    }
    """
    BINDINGS = [("escape,q,vertical_line,ctrl+c", "dismiss", "")]  # noqa: RUF012

    def __init__(self, table: LineTable) -> None:
        super().__init__()
        self._table = table

    def compose(self) -> ComposeResult:
        """The columns, in their order."""
        with Vertical() as box:
            box.border_title = Content("Columns")
            box.border_subtitle = Content("space shows or hides, esc closes")
            self.choices = ColumnChoices()
            self.choices.styles.height = len(self._table.COLUMNS) + 1
            yield self.choices

    def on_mount(self) -> None:
        """Show the choices."""
        self._update()
        self.choices.focus()

    def _update(self) -> None:
        width = self._table.size.width
        rows = []
        for column in self._table.COLUMNS:
            shown = column.title not in self._table.hidden_columns
            note = f"from {column.min_pane_width} cells on" if column.min_pane_width > width else ""
            mark = ("[x]", "good") if shown else ("[ ]", "dim")
            rows.append(Row(column.title, (mark, (column.title, "text"), (note, "dim"))))
        self.choices.show(rows)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Show or hide the column."""
        event.stop()
        self._table.toggle_column(str(event.row.key))
        self._update()
