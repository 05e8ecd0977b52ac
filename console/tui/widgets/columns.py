"""The columns of a table: which of them are shown in a pane of some width, and where each begins."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from console.words.table import Column

_WIDE_PANE = 118
_POINTER_WIDTH = 3
_MIN_REST = 4


class PlacedColumn(NamedTuple):
    """A column that is shown: its place among all, its first cell and its width."""

    place: int
    column: Column
    start: int
    width: int


def place_columns(columns: Sequence[Column], pane_width: int, hidden: Collection[str] = ()) -> list[PlacedColumn]:
    """The columns that fit and that the operator has not hidden, by title; one always stays."""
    fitting = [(index, column) for index, column in enumerate(columns) if pane_width >= column.min_pane_width]
    shown = [(index, column) for index, column in fitting if column.title not in hidden] or fitting[:1]
    widths = [c.wide_width if c.wide_width and pane_width >= _WIDE_PANE else c.width for _, c in shown]
    rest = max(_MIN_REST, pane_width - _POINTER_WIDTH - sum(widths) - len(shown) + 1)
    if 0 not in widths and widths:
        widths[-1] += max(0, rest - _MIN_REST)
    placed, start = [], _POINTER_WIDTH
    for (index, column), width in zip(shown, widths, strict=True):
        placed.append(PlacedColumn(index, column, start, width or rest))
        start += (width or rest) + 1
    return placed
