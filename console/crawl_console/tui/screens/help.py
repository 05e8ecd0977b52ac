"""The key panel: every key by group, in as many columns as fit; `/` searches them."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from crawl_console.tui.bindings import KEYS


class KeyPanel(ModalScreen[None]):
    DEFAULT_CSS = """
    KeyPanel { align: center middle; }
    KeyPanel > VerticalScroll {
        width: 96%; max-width: 150; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $panel;
    }
    KeyPanel Static { height: auto; }
    """
    BINDINGS = [  # noqa: RUF012
        ("q,question_mark,enter,ctrl+c", "dismiss", ""), ("escape", "leave", ""), ("slash", "search", ""),
    ]  # fmt: skip

    def __init__(self, labels: dict[str, str]) -> None:
        """`labels`: by key id."""
        super().__init__()
        self._labels = labels

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = Content("Keys")
            box.border_subtitle = Content("/ searches, esc closes")
            self._search = Input(placeholder="words of a key or of what it does", compact=True)
            self._search.display = False
            yield self._search
            self._text = Static(Content(self._key_text("")), markup=False)
            yield self._text

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_search(self) -> None:
        self._search.display = True
        self._search.focus()

    def action_leave(self) -> None:
        """End the search, else close."""
        if not self._search.display:
            self.dismiss()
            return
        self._search.value, self._search.display = "", False
        self.query_one(VerticalScroll).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._text.update(Content(self._key_text(event.value)))

    def on_input_submitted(self) -> None:
        self.query_one(VerticalScroll).focus()

    def _key_text(self, search: str) -> str:
        """The keys whose label, name or description has all words of a search."""
        width = min(150, self.app.size.width * 96 // 100) - 6
        columns = max(1, min(4, width // 35))
        column_width = width // columns
        cells: list[str] = []
        group = ""
        for key in KEYS:
            words = f"{self._labels[key.id]} {key.id} {key.description} {key.group}".lower()
            if not all(word in words for word in search.lower().split()):
                continue
            if key.group != group:
                group = key.group
                cells.append(f"── {group} ".ljust(column_width - 2, "─"))
            cells.append(f"{self._labels[key.id]:>5}  {key.description}")
        rows = -(-len(cells) // columns)
        lines = []
        for row in range(rows):
            parts = [cells[row + c * rows] for c in range(columns) if row + c * rows < len(cells)]
            lines.append("".join(part[: column_width - 1].ljust(column_width) for part in parts))
        return "\n".join(lines)
