"""The key panel: every key by group, in as many columns as fit."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from console.tui.bindings import KEYS


class KeyPanel(ModalScreen[None]):
    DEFAULT_CSS = """
    KeyPanel { align: center middle; }
    KeyPanel > VerticalScroll {
        width: 96%; max-width: 150; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $panel;
    }
    KeyPanel Static { height: auto; }
    """
    BINDINGS = [("escape,q,question_mark,enter,ctrl+c", "dismiss", "")]  # noqa: RUF012

    def __init__(self, labels: dict[str, str]) -> None:
        """`labels`: labels by key id that differ from the key table's, as in the user's keymap."""
        super().__init__()
        self._labels = labels

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = Content("Keys")
            box.border_subtitle = Content("esc closes")
            yield Static(Content(self._key_text()), markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def _key_text(self) -> str:
        width = min(150, self.app.size.width * 96 // 100) - 6
        columns = max(1, min(4, width // 35))
        column_width = width // columns
        cells: list[str] = []
        group = ""
        for key in KEYS:
            if key.group != group:
                group = key.group
                cells.append(f"── {group} ".ljust(column_width - 2, "─"))
            cells.append(f"{self._labels.get(key.id, key.label):>5}  {key.description}")
        rows = -(-len(cells) // columns)
        lines = []
        for row in range(rows):
            parts = [cells[row + c * rows] for c in range(columns) if row + c * rows < len(cells)]
            lines.append("".join(part[: column_width - 1].ljust(column_width) for part in parts))
        return "\n".join(lines)
