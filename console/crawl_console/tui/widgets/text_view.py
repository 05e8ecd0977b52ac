"""Scrollable text: lines with roles, wrapped or cut."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, chop_cells

from crawl_console.format import Span
from crawl_console.sanitize import clean
from crawl_console.tui.widgets.line_canvas import Line
from crawl_console.tui.widgets.scroll_pane import ScrollPane

_INDENT = 2


class TextView(ScrollPane):
    """Shows `lines` below its rule, from `first_line` on."""

    def __init__(self, title: str = "", **named: Any) -> None:
        super().__init__(**named)
        self.heading = title
        self.lines: Sequence[Span] = ()
        self.first_line = 0
        self.wrap = True
        self._wrapped: list[Span] = []
        self._wrapped_from: tuple[tuple[Span, ...], int] | None = None

    def title(self) -> str:
        return self.heading

    def show(self, lines: Sequence[Span]) -> None:
        """Set the lines. The position stays."""
        self.lines = lines
        self.redraw()

    @property
    def line_count(self) -> int:
        return len(self._display_lines())

    def text(self) -> str:
        return "\n".join(text for text, _ in self.lines)

    def paint(self, width: int, height: int) -> list[Line]:
        lines = self._display_lines()
        self.first_line = max(0, min(self.first_line, len(lines) - self.page_lines))
        visible = lines[self.first_line : self.first_line + height - 1]
        note = f"from line {self.first_line + 1}" if self.first_line else ""
        return [self.rule(width, note=note), *(Line(((" " * _INDENT, ""), span)) for span in visible)]

    def _display_lines(self) -> Sequence[Span]:
        """Return the lines as displayed. Wrapping is cached: owners show the same text at every poll."""
        if not self.wrap:
            return self.lines
        width = max(8, self.size.width - _INDENT - 1)  # the last column may be the scroll bar
        source = (tuple(self.lines), width)
        if self._wrapped_from != source:
            self._wrapped = [part for text, role in self.lines for part in wrap_text(text, role, width)]
            self._wrapped_from = source
        return self._wrapped

    def scroll_position(self) -> tuple[int, int]:
        maximum = max(0, len(self._display_lines()) - self.page_lines)
        return min(self.first_line, maximum), maximum

    def scroll_lines_to(self, position: int) -> None:
        self.first_line = max(0, position)
        self.redraw()

    # --- keys

    def action_top(self) -> None:
        self.scroll_lines_to(0)

    def action_bottom(self) -> None:
        self.scroll_lines_to(len(self._display_lines()))

    def action_wrap(self) -> None:
        self.wrap = not self.wrap
        self.redraw()


def wrap_text(text: str, role: str, width: int) -> list[Span]:
    """Clean a text and split it into lines of at most `width` cells, between words if possible."""
    lines, rest = [], clean(text)
    while len(rest) > width or cell_len(rest) > width:
        line = rest[:width] if rest.isascii() else chop_cells(rest, width)[0]
        if (blank := line.rfind(" ") if rest[len(line) : len(line) + 1] != " " else len(line)) > width // 2:
            line = rest[:blank]
        lines.append((line, role))
        rest = rest[len(line) :].removeprefix(" ")
    return [*lines, (rest, role)] if rest or not lines else lines
