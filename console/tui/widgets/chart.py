"""Draws charts: stacked columns and ranges of cells with a scale and a time axis."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from console.tui.widgets.line_canvas import Line, Span

SCALE_WIDTH = 9
_TICK_CELLS = 14
_PARTIAL = " ▁▂▃▄▅▆▇█"

Cell = tuple[str, str]
"""A character and its role."""


class Part(NamedTuple):
    """A part of a stacked column. `glyph` tells parts apart where there is no colour."""

    value: float
    glyph: str
    role: str


class Range(NamedTuple):
    """The low and high end of a column, such as p50 and p95; None: nothing was measured."""

    low: float | None
    high: float | None


def stacked_column(parts: Sequence[Part], top: float, height: int) -> list[Cell | None]:
    """The cells of a column, the lowest first; None: empty. Its upper end is exact to an eighth of a cell."""
    cells: list[Cell | None] = []
    if top <= 0:
        return [None] * height
    ends, end = [], 0.0
    for part in parts:
        end += part.value / top * height
        ends.append(end)
    for row in range(height):
        left = end - row
        if left <= 0:
            cells.append(None)
            continue
        middle = row + min(1.0, left) / 2
        part = next(part for part, at in zip(parts, ends, strict=True) if at >= middle)
        glyph = part.glyph if left >= 1 else _PARTIAL[max(1, round(left * 8))]
        cells.append((glyph, part.role))
    return cells


def range_column(values: Range, top: float, height: int) -> list[Cell | None]:
    """The cells of a column with a mark at either end, and a line between."""
    cells: list[Cell | None] = [None] * height
    if values.low is None or values.high is None or top <= 0:
        return cells
    low, high = (min(height - 1, int(value / top * height)) for value in (values.low, values.high))
    for row in range(low + 1, high):
        cells[row] = ("│", "dim")
    cells[high] = ("▲", "warn")
    cells[low] = ("●", "accent")
    return cells


def chart_lines(
    columns: Sequence[Sequence[Cell | None]], height: int, top: str, middle: str, *, ends_at: float, seconds: float
) -> list[Line]:
    """Lines of a chart from the top, with scale, grid and time axis. `ends_at`: wall clock; `seconds`: of the axis."""
    ticks = tick_positions(len(columns))
    lines = []
    for row in range(height - 1, -1, -1):
        on_grid = row in (height - 1, (height - 1) // 2)
        mark = top if row == height - 1 else middle if row == (height - 1) // 2 and height > 2 else "0" * (row == 0)
        cells = [column[row] or _grid_cell(place in ticks, on_grid=on_grid) for place, column in enumerate(columns)]
        lines.append(Line(((f"{mark:>{SCALE_WIDTH - 1}} ", "dim"), *_to_spans(cells))))
    return [*lines, Line(((" " * SCALE_WIDTH, ""), (time_axis(len(columns), ends_at, seconds), "dim")))]


def tick_positions(width: int) -> frozenset[int]:
    count = max(1, width // _TICK_CELLS)
    return frozenset(round(number * (width - 1) / count) for number in range(count + 1))


def time_axis(width: int, ends_at: float, seconds: float, clock: Callable[[float], str] | None = None) -> str:
    """The times of the ticks: of the first at its right, of the others at their left."""
    shown = clock or (lambda at: time.strftime("%H:%M:%S" if seconds <= 900 else "%H:%M", time.localtime(at)))
    axis = [" "] * width
    for tick in sorted(tick_positions(width)):
        text = shown(ends_at - (width - 1 - tick) / max(1, width - 1) * seconds)
        start = 0 if tick == 0 else max(0, tick - len(text) + 1)
        if all(character == " " for character in axis[max(0, start - 1) : start + len(text)]):
            axis[start : start + len(text)] = list(text)
    return "".join(axis[:width])


def _grid_cell(on_tick: bool, *, on_grid: bool) -> Cell:
    return ("┊" if on_tick else "┈" if on_grid else " ", "grid")


def _to_spans(cells: Sequence[Cell]) -> list[Span]:
    return [("".join(glyph for glyph, _ in group), role) for role, group in groupby(cells, key=lambda cell: cell[1])]
