"""Draws a screen as SVG, each character in its own cell: any monospace font fits."""

from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import blend_rgb
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, BASELINE = 8, 17, 13, 13
_DIMMED = 0.4
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, Menlo, '
    'DejaVu Sans Mono, Consolas, monospace" font-size="{size}" style="white-space: pre">\n<desc>{note}</desc>'
)


def drawn_strips(app):
    """The lines of the screen as Textual draws them."""
    return app.screen._compositor.render_strips()


def draw_screen(strips: Sequence[Any], note: str = "") -> str:
    """The SVG of rendered strips. `note`: its description."""
    width, height = max(strip.cell_length for strip in strips) * CELL_WIDTH, len(strips) * CELL_HEIGHT
    lines = [_HEAD.format(width=width, height=height, size=FONT_SIZE, note=escape(note))]
    lines.append(f'<rect width="{width}" height="{height}" fill="{SVG_EXPORT_THEME.background_color.hex}"/>')
    for row, strip in enumerate(strips):
        lines += _draw_line(strip, row * CELL_HEIGHT)
    return "\n".join([*lines, "</svg>\n"])


def _draw_line(strip: Any, top: int) -> Iterator[str]:
    texts, cell = [], 0
    for text, style, _ in strip:
        foreground, background = _colors(style or Style())
        width = cell_len(text)
        if background != SVG_EXPORT_THEME.background_color.hex:
            place = f'x="{cell * CELL_WIDTH}" y="{top}" width="{width * CELL_WIDTH}" height="{CELL_HEIGHT}"'
            yield f'<rect {place} fill="{background}"/>'
        if text.strip():
            marks = ' font-weight="bold"' if style and style.bold else ""
            marks += ' text-decoration="underline"' if style and style.underline else ""
            starts, shown = _place_characters(text, cell)
            texts.append(f'<text y="{top + BASELINE}" fill="{foreground}"{marks} x="{starts}">{escape(shown)}</text>')
        cell += width
    yield from texts


def _place_characters(text: str, cell: int) -> tuple[str, str]:
    """The place of each character, and the characters; blanks are left out."""
    starts, shown = [], []
    for character in text:
        width = cell_len(character)
        if character != " ":
            starts.append(str((cell if width else cell - 1) * CELL_WIDTH))  # without a width it joins the last one
            shown.append(character)
        cell += width
    return " ".join(starts), "".join(shown)


def _colors(style: Style) -> tuple[str, str]:
    theme = SVG_EXPORT_THEME
    foreground = theme.foreground_color if style.color is None else style.color.get_truecolor(theme)
    background = theme.background_color
    if style.bgcolor is not None and not style.bgcolor.is_default:
        background = style.bgcolor.get_truecolor(theme, foreground=False)
    if style.reverse:
        foreground, background = background, foreground
    if style.dim:
        foreground = blend_rgb(foreground, background, _DIMMED)
    return foreground.hex, background.hex
