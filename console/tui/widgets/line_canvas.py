"""A widget that draws lines of cleaned text, and sends the terminal only what changed. Nothing is parsed as markup."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from console.sanitize import clean
from console.tui.themes import ThemeStyles
from console.tui.widgets.console_widget import ConsoleWidget

Span = tuple[str, str]
"""A text and the role of its colour."""


class Line(NamedTuple):
    """One line: its spans, and what it lies on."""

    spans: Sequence[Span]
    base: str = ""


BLANK = Line(())


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The cleaned text in exactly that many cells; what was cut off ends in `…`."""
    text = clean(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 1 else set_cell_size(text, max(0, width))
    return " " * (width - length) + text if right else text + " " * (width - length)


class Canvas(ConsoleWidget):
    """Paints all its lines at once and refreshes the cells that differ: a quiet screen costs a slow line nothing."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    ALLOW_SELECT = False
    can_focus = False

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(name=name, id=id, classes=classes)
        self._strips: list[Strip] = []
        self._painted_size: Size | None = None

    def paint(self, width: int, height: int) -> Sequence[Line]:
        """The lines as they should be now, at most `height` of them."""
        raise NotImplementedError

    def redraw(self, *_: Any) -> None:
        """Paint, and refresh what changed. Free while nobody sees it."""
        if not self.is_attached or not self.display or not self.size.area:
            self._painted_size = None
            return
        old, whole = self._strips, self._painted_size != self.size
        self._render_all()
        if whole or len(old) != len(self._strips):
            self.refresh()
            return
        regions = [
            Region(first, y, last - first, 1)
            for y, (was, now) in enumerate(zip(old, self._strips, strict=True))
            if was is not now and (first := _first_difference(was, now)) < (last := _last_difference(was, now))
        ]
        if regions:
            self.refresh(*regions)

    def repaint(self) -> None:
        """Paint anew: the theme changed."""
        self._painted_size = None
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """One painted line."""
        if self._painted_size != self.size:
            self._render_all()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def on_resize(self, _event: events.Resize) -> None:
        """Another size, another painting."""
        self.redraw()

    def _render_all(self) -> None:
        width, height = self.size
        lines = list(self.paint(width, height))[:height]
        palette = self.console_app.theme_styles
        self._strips = [_to_strip(line, width, palette) for line in lines]
        self._strips += [_to_strip(BLANK, width, palette)] * (height - len(lines))
        self._painted_size = self.size


def _to_strip(line: Line, width: int, palette: ThemeStyles) -> Strip:
    pieces: list[tuple[str, Style]] = []
    left = width
    for text, role in line.spans:
        text = clean(text)
        length = len(text) if text.isascii() else cell_len(text)
        if length > left:
            text, length = set_cell_size(text, left), left
        if text:
            _append_piece(pieces, text, palette.style(line.base, role))
        left -= length
        if left <= 0:
            break
    if left > 0:
        _append_piece(pieces, " " * left, palette.style(line.base, ""))
    return Strip([Segment(text, style) for text, style in pieces], width)


def _append_piece(pieces: list[tuple[str, Style]], text: str, style: Style) -> None:
    """Texts of one style are one piece, and blanks take the style before them: each change is 40 bytes on the line."""
    last = pieces[-1][1] if pieces else None
    if last is not None and (last is style or (text.isspace() and last.bgcolor == style.bgcolor and not last.reverse)):
        pieces[-1] = (pieces[-1][0] + text, last)
    else:
        pieces.append((text, style))


def _first_difference(old: Strip, new: Strip) -> int:
    """The first cell that differs; the width where none does."""
    x = 0
    for was, now in zip(old, new, strict=False):
        if was != now:
            return x
        x += now.cell_length
    return x


def _last_difference(old: Strip, new: Strip) -> int:
    """One past the last cell that differs; 0 where none does."""
    x = new.cell_length
    for was, now in zip(reversed(list(old)), reversed(list(new)), strict=False):
        if was != now:
            return x
        x -= now.cell_length
    return x
