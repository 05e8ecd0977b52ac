"""Plots values as braille dots: each cell holds two columns and four rows of dots."""

from collections.abc import Sequence

_BASE = 0x2800
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)


def braille_plot(values: Sequence[float], width: int, height: int, *, top: float | None = None) -> list[str]:
    """Plot the values as filled columns, two per cell, right-aligned, in `height` lines. `top`: end of the scale."""
    if width <= 0 or height <= 0:
        return []
    shown = list(values)[-width * 2 :]
    high = top if top is not None else max(shown, default=0.0)
    dots = [0] * (width * 2 - len(shown)) + [_column_dots(value, high, height) for value in shown]
    lines = []
    for line in range(height - 1, -1, -1):
        cells = []
        for cell in range(width):
            left, right = dots[2 * cell] - line * 4, dots[2 * cell + 1] - line * 4
            bits = sum(_LEFT[: _clamp(left)]) | sum(_RIGHT[: _clamp(right)])
            cells.append(chr(_BASE + bits) if bits else " ")
        lines.append("".join(cells))
    return lines


def _column_dots(value: float, high: float, height: int) -> int:
    if value <= 0 or high <= 0:
        return 0
    return max(1, min(height * 4, round(value / high * height * 4)))


def _clamp(dots: int) -> int:
    return max(0, min(4, dots))
