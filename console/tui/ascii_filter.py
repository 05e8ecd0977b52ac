"""For terminals that know no UTF-8: every cell drawn is ASCII, each sign replaced by one of the same width."""

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SIGNS = {
    "-": "─━═–—", "|": "│┃║▌▐▎▏▕▊▋▍▉‖├┤", "+": "┌┐└┘╭╮╰╯┬┴┼╔╗╚╝", "#": "█■▇▆", "_": "▁▂", "=": "▃▄▅", ">": "▶→≥",
    "<": "←≤", "o": "○◐◌□◷", "*": "●", "x": "✗×", "v": "✓↓▼", "^": "↑▲⇧▔", ".": "…·", "'": "‘’“”", "/": "↵",
}  # fmt: skip


def _build_table() -> dict[int, str]:
    return {ord(sign): plain for plain, signs in _SIGNS.items() for sign in signs}


class AsciiFilter(LineFilter):
    """The last step before the terminal."""

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
        return "".join(self._ascii_sign(sign) for sign in text)

    def _ascii_sign(self, sign: str) -> str:
        if sign.isascii():
            return sign
        code = ord(sign)
        if 0x2800 <= code < 0x2900:  # a cell of a plot: how many of its dots are set
            return " .:-=+*#@"[(code - 0x2800).bit_count()]
        return self._table.get(code, "?" * cell_len(sign))
