"""Draws charts in braille: stacked areas with a line above them, with a scale and a time axis."""

import time
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from crawl_console.format import Span, braille_cell
from crawl_console.tui.widgets.line_canvas import Line

SCALE_WIDTH = 9
POINTS = 2
"""In a cell, beside each other."""
_DOTS = 4
"""In a cell, above each other."""
_TICK_CELLS = 14

Cell = tuple[str, str]
"""A character and its role."""


class Point(NamedTuple):
    """What is drawn at a moment: parts on top of each other, each with its role, and the value of a line."""

    parts: Sequence[tuple[float, str]] = ()
    line: float | None = None


def draw_points(points: Sequence[Point], top: float, height: int, line_role: str = "warn") -> list[list[Cell | None]]:
    """The cells of each two points, the lowest first; None: empty."""
    areas = [_area(point, top, height * _DOTS) for point in points]
    levels = _levels([point.line for point in points], top, height * _DOTS)
    columns: list[list[Cell | None]] = []
    for place in range(0, len(points) - 1, POINTS):
        pair, lines = areas[place : place + POINTS], levels[place : place + POINTS]
        tallest = max(pair, key=lambda area: area[-1][0])
        column: list[Cell | None] = []
        for row in range(height):
            left, right = (_bits(area[-1][0], line, row) for area, line in zip(pair, lines, strict=True))
            filled = min(_DOTS, tallest[-1][0] - row * _DOTS)
            middle = row * _DOTS + filled / 2
            role = next((role for end, role in tallest if end >= middle), line_role) if filled > 0 else line_role
            column.append((braille_cell(left, right), role) if left or right else None)
        columns.append(column)
    return columns


def _area(point: Point, top: float, dots: int) -> list[tuple[int, str]]:
    """The upper end of each part, in dots; what is there has one dot at least."""
    ends = accumulate(value for value, _ in point.parts)
    area = [(round(end / top * dots) if top > 0 else 0, role) for end, (_, role) in zip(ends, point.parts, strict=True)]
    if area and not area[-1][0] and any(value > 0 for value, _ in point.parts):
        area[-1] = (1, area[-1][1])
    return area or [(0, "")]


def _levels(values: Sequence[float | None], top: float, dots: int) -> list[range]:
    """The dots of the line at each point: from its last level to this one."""
    levels, before = [], None
    for value in values:
        level = None if value is None or top <= 0 else max(0, min(dots - 1, round(value / top * dots) - 1))
        if level is None:
            levels.append(range(0))
        elif before is None or before == level:
            levels.append(range(level, level + 1))
        else:
            levels.append(range(before + 1, level + 1) if before < level else range(level, before))
        before = level
    return levels


def _bits(area: int, line: range, row: int) -> frozenset[int]:
    """The dots of a point in a row, from below."""
    first = row * _DOTS
    return frozenset(dot for dot in range(_DOTS) if first + dot < area or first + dot in line)


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
