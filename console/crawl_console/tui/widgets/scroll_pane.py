"""A pane that shows part of a longer list, with Textual's scroll bar, mouse wheel and dragging."""

from typing import Any

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.events import Show
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender, ScrollTo
from textual.widget import Widget

from crawl_console.tui.widgets.pane import Pane

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


class ScrollPane(Pane, ScrollView, inherit_bindings=False):
    """Paints the visible lines below its first line, which does not scroll.

    The subclass owns the position and reports it with `scroll_position`; the scroll bar follows. When the operator uses
    the wheel or the bar, `scroll_lines_to` is called. Textual would redraw the whole pane for each new length or
    position; here only cells that differ are redrawn, in the pane and in the bar.
    """

    DEFAULT_CSS = """
    ScrollPane {
        overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        scrollbar-background: $panel; scrollbar-background-hover: $panel; scrollbar-background-active: $panel;
        scrollbar-color: $primary 60%; scrollbar-color-hover: $primary; scrollbar-color-active: $primary;
    }
    """

    def scroll_position(self) -> tuple[int, int]:
        """Return the number of lines above the visible ones, and its largest value."""
        raise NotImplementedError

    def scroll_lines_to(self, position: int) -> None:
        raise NotImplementedError

    def move(self, lines: int) -> None:
        """Move the cursor, or scroll a pane without a cursor."""
        self.scroll_lines_to(self.scroll_position()[0] + lines)

    def action_down(self) -> None:
        self.move(1)

    def action_up(self) -> None:
        self.move(-1)

    def action_page_down(self) -> None:
        self.move(max(1, self.size.height - 2))

    def action_page_up(self) -> None:
        self.move(-max(1, self.size.height - 2))

    @property
    def page_lines(self) -> int:
        return max(1, self.size.height - 1)

    @property
    def text_width(self) -> int:
        """The number of cells of a line that the scroll bar does not cover."""
        return self.size.width - self.scrollbar_size_vertical

    def redraw(self, *_: Any) -> None:
        """Paint the pane and move the scroll bar. Refresh only what changed."""
        super().redraw()
        if self._painted_size is not None and self._update_scroll_bar():
            self.repaint()

    def on_show(self, _event: Show) -> None:
        self.redraw()

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """Textual's scroll bar, drawn in whole cells."""
        bar = super().vertical_scrollbar
        bar.renderer = CellScrollBarRender  # type: ignore[misc]  # Textual documents this for single instances
        return bar

    def _update_scroll_bar(self) -> bool:
        """Set length and position of the scroll bar. Returns whether it appeared or disappeared."""
        position, maximum = self.scroll_position()
        length = maximum + self.size.height
        # set_reactive does not notify: assigning these would redraw the whole pane
        self.set_reactive(Widget.virtual_size, Size(self.size.width, length))
        self.set_reactive(Widget.scroll_y, float(position))
        self.set_reactive(Widget.scroll_target_y, float(position))
        if self.show_vertical_scrollbar != (maximum > 0):
            self.show_vertical_scrollbar = maximum > 0
            self.vertical_scrollbar.display = maximum > 0
            self._set_bar(length, position)
            return True
        if maximum > 0:
            self._set_bar(length, position)
        return False

    def _set_bar(self, length: int, position: int) -> None:
        bar, height = self.vertical_scrollbar, self.size.height
        before = thumb_range(height, bar.window_virtual_size, bar.window_size, bar.position)
        bar.set_reactive(ScrollBar.window_virtual_size, length)
        bar.set_reactive(ScrollBar.window_size, height)
        bar.set_reactive(ScrollBar.position, float(position))
        if before != thumb_range(height, length, height, position):
            bar.refresh()

    # --- the mouse

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The wheel or the scroll bar moved the pane."""
        if round(old_value) != round(new_value):
            self.scroll_lines_to(round(new_value))

    def scroll_to(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        animate: bool = False,  # noqa: ARG002
        **options: Any,
    ) -> None:
        """Scroll without animation: each step would be sent over the line."""
        super().scroll_to(x, y, animate=False, **options)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Move with the thumb. The button may already be released."""
        message.stop()
        message.prevent_default()
        if message.y is not None:
            self.scroll_to(y=self._dragged_position(message.y))

    def _dragged_position(self, y: float) -> float:
        """Correct the position: Textual does not know that the thumb has whole cells. The thumb follows the mouse."""
        bar = self.vertical_scrollbar
        first, last = thumb_range(self.size.height, bar.window_virtual_size, bar.window_size, bar.grabbed_position)
        free = self.size.height - (last - first)
        cells = round((y - bar.grabbed_position) * bar.window_size / bar.window_virtual_size)
        if not cells:
            return bar.grabbed_position
        if first + cells <= 0 or first + cells >= free:
            return 0.0 if cells < 0 else float(self.max_scroll_y)
        return bar.grabbed_position + cells * self.max_scroll_y / free
