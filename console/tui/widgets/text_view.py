"""A pane of text that is longer than the pane: lines with roles, scrolled by the keys that move elsewhere."""

from collections.abc import Sequence
from typing import Any

from rich.cells import chop_cells
from textual import events

from console.sanitize import clean
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane


class TextPane(Pane):
    """Shows `lines` below its rule, from `first` on."""

    def __init__(self, title: str = "", **named: Any) -> None:
        super().__init__(**named)
        self.heading = title
        self.lines: Sequence[Span] = ()
        self.first_line = 0
        self.wrap = True

    def title(self) -> str:
        """The heading."""
        return self.heading

    def show(self, lines: Sequence[Span]) -> None:
        """Other lines; the place stays."""
        self.lines = lines
        self.redraw()

    def text(self) -> str:
        """All of it, to be copied."""
        return "\n".join(text for text, _ in self.lines)

    def paint(self, width: int, height: int) -> list[Line]:
        """The rule and the lines in sight."""
        laid: list[Span] = []
        room, wanted = max(8, width - 3), self.first_line + height - 1
        for text, role in self.lines:
            laid += wrap_text(text, role, room) if self.wrap else [(text, role)]
            if len(laid) > wanted + height:
                break
        self.first_line = max(0, min(self.first_line, len(laid) - height + 1))
        shown = laid[self.first_line : self.first_line + height - 1]
        note = f"from line {self.first_line + 1}" if self.first_line else ""
        return [self.rule(width, note=note), *(Line((("  ", ""), (text, role))) for text, role in shown)]

    def _scroll(self, by: int) -> None:
        self.first_line = max(0, self.first_line + by)
        self.redraw()

    def action_down(self) -> None:
        """A line on."""
        self._scroll(1)

    def action_up(self) -> None:
        """A line back."""
        self._scroll(-1)

    def action_page_down(self) -> None:
        """A page on."""
        self._scroll(max(1, self.size.height - 2))

    def action_page_up(self) -> None:
        """A page back."""
        self._scroll(-max(1, self.size.height - 2))

    def action_top(self) -> None:
        """The first line."""
        self._scroll(-self.first_line)

    def action_bottom(self) -> None:
        """The last line."""
        self._scroll(1_000_000)

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap
        self.redraw()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Three lines on."""
        self._scroll(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Three lines back."""
        self._scroll(-3)


def wrap_text(text: str, role: str, room: int) -> list[Span]:
    """A text as lines of at most `room` cells."""
    text = clean(text)
    if text.isascii():
        return [(text[at : at + room], role) for at in range(0, len(text), room)] or [("", role)]
    return [(part, role) for part in chop_cells(text, room)]
