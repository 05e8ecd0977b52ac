"""A widget that draws lines of cleaned text and sends the terminal only the cells that changed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from crawl_console.format import Span
from crawl_console.sanitize import clean
from crawl_console.tui.themes import ThemeStyles
from crawl_console.tui.widgets.console_widget import ConsoleWidget

_FILLERS = " ─━"


class Line(NamedTuple):
    """One line: its spans and the role of its background."""

    spans: Sequence[Span]
    base: str = ""


BLANK = Line(())


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Clean the text and cut or pad it to `width` cells. A text that was cut ends in `…`."""
    text = clean(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 1 else set_cell_size(text, max(0, width))
    return " " * (width - length) + text if right else text + " " * (width - length)


class Canvas(ConsoleWidget):
    """Paints all its lines and refreshes the cells that differ, so that an unchanged screen sends nothing."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    ALLOW_SELECT = False
    can_focus = False

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(name=name, id=id, classes=classes)
        self._strips: list[Strip] = []
        self._painted_size: Size | None = None

    def paint(self, width: int, height: int) -> Sequence[Line]:
        """Return the current lines, at most `height` of them."""
        raise NotImplementedError

    def redraw(self, *_: Any) -> None:
        """Paint and refresh what changed. Does nothing while the widget is not visible."""
        if not self.is_attached or not self.display or not self.size.area:
            self._painted_size = None
            return
        old, resized = self._strips, self._painted_size != self.size
        self._render_all()
        if resized or len(old) != len(self._strips):
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
        """Redraw all cells, for example in another theme."""
        self._painted_size = None
        self.redraw()

    def render_line(self, y: int) -> Strip:
        if self._painted_size != self.size:
            self._render_all()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)

    def on_resize(self, _event: events.Resize) -> None:
        self.redraw()

    def _render_all(self) -> None:
        width, height = self.size
        lines = list(self.paint(width, height))[:height]
        palette = self.console_app.theme_styles
        self._strips = [_to_strip(line, width, palette) for line in lines]
        self._strips += [_to_strip(BLANK, width, palette)] * (height - len(lines))
        self._painted_size = self.size


def _to_strip(line: Line, width: int, palette: ThemeStyles) -> Strip:
    """The cells of a line. One that is cut ends in `…`; rules and blanks may be longer than it."""
    pieces: list[tuple[str, Style]] = []
    left = width
    for place, (text, role) in enumerate(line.spans):
        text = clean(text)
        length = len(text) if text.isascii() else cell_len(text)
        if length >= left:
            rest = text[left:] + "".join(text for text, _ in line.spans[place + 1 :])
            is_cut = left > 1 and bool(rest.strip(_FILLERS))
            text, length = set_cell_size(text, left - is_cut) + "…" * is_cut, left
        if text:
            _append_piece(pieces, text, palette.style(line.base, role))
        left -= length
        if left <= 0:
            break
    if left > 0:
        _append_piece(pieces, " " * left, palette.style(line.base, ""))
    return Strip([Segment(text, style) for text, style in pieces], width)


def _append_piece(pieces: list[tuple[str, Style]], text: str, style: Style) -> None:
    """Join texts of one style, and give blanks the style before them: each change of style sends about 40 bytes."""
    last = pieces[-1][1] if pieces else None
    if last is not None and (last is style or (text.isspace() and last.bgcolor == style.bgcolor and not last.reverse)):
        pieces[-1] = (pieces[-1][0] + text, last)
    else:
        pieces.append((text, style))


def _first_difference(old: Strip, new: Strip) -> int:
    """Return the first cell that differs, or the width if none does."""
    x = 0
    for was, now in zip(old, new, strict=False):
        if was != now:
            return x
        x += now.cell_length
    return x


def _last_difference(old: Strip, new: Strip) -> int:
    """Return the cell after the last one that differs, or 0 if none does."""
    x = new.cell_length
    for was, now in zip(reversed(list(old)), reversed(list(new)), strict=False):
        if was != now:
            return x
        x -= now.cell_length
    return x
