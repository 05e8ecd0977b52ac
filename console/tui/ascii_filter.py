"""For terminals without UTF-8: replaces every character by ASCII of the same width."""

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_REPLACEMENTS = {
    "-": "─━═–—", "|": "│┃║▌▐▎▏▕▊▋▍▉‖├┤", "+": "┌┐└┘╭╮╰╯┬┴┼╔╗╚╝", "#": "█■▇▆", "_": "▁▂", "=": "▃▄▅", ">": "▶→≥",
    "<": "←≤", "o": "○◐◌□◷", "*": "●", "x": "✗×", "v": "✓↓▼", "^": "↑▲⇧▔", ".": "…·", "'": "‘’“”", "/": "↵",
}  # fmt: skip


def _build_table() -> dict[int, str]:
    return {ord(character): plain for plain, characters in _REPLACEMENTS.items() for character in characters}


class AsciiFilter(LineFilter):
    """The last filter before the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._table = _build_table()

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        """The same cells in ASCII."""
        return [
            s if s.control or s.text.isascii() else Segment(self._to_ascii(s.text), s.style)
            for s in segments
        ]  # fmt: skip

    def _to_ascii(self, text: str) -> str:
        return "".join(self._ascii_character(character) for character in text)

    def _ascii_character(self, character: str) -> str:
        if character.isascii():
            return character
        code = ord(character)
        if 0x2800 <= code < 0x2900:  # a braille cell of a plot: by the number of its dots
            return " .:-=+*#@"[(code - 0x2800).bit_count()]
        return self._table.get(code, "?" * cell_len(character))
