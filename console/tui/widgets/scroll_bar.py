"""Draws a scroll bar of whole cells, which stays readable without colour and without UTF-8."""

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

_TRACK, _THUMB = " ", "█"


def thumb_range(size: int, total: float, visible: float, position: float) -> tuple[int, int]:
    """Return the first cell of the thumb and the cell after it. The thumb is at an end only if the list is."""
    if size <= 0 or visible <= 0 or total <= visible:
        return 0, 0
    length = max(1, min(size - 1, round(size * visible / total)))
    hidden, free = total - visible, size - length
    first = round(free * min(1.0, max(0.0, position / hidden)))
    if free > 1 and 0 < position < hidden:
        first = max(1, min(free - 1, first))
    return first, first + length


class CellScrollBarRender(ScrollBarRender):
    """Draws the thumb with a glyph, not with colour alone, and without eighths of a cell."""

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: Color = Color.parse("#555555"),  # noqa: B008
        bar_color: Color = Color.parse("bright_magenta"),  # noqa: B008
    ) -> Segments:
        """Return one segment per cell. The meta data tells Textual what a mouse press on the cell does."""
        if not vertical:
            return super().render_bar(
                size, virtual_size, window_size, position, thickness, vertical, back_color, bar_color
            )
        first, last = thumb_range(size, virtual_size, window_size, position)
        style = Style(color=bar_color, bgcolor=back_color)
        above = Segment(_TRACK * thickness, style + Style(meta={"@mouse.down": "scroll_up"}))
        thumb = Segment(_THUMB * thickness, style + Style(meta={"@mouse.down": "grab"}))
        below = Segment(_TRACK * thickness, style + Style(meta={"@mouse.down": "scroll_down"}))
        cells = [above] * first + [thumb] * (last - first) + [below] * (size - last)
        return Segments(cells, new_lines=True)
