"""Tables of spans: their columns and rows, however they are drawn."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Never, TypeAlias, TypeVar

from msgspec import Struct

from crawl_console.format import Span

RowKey = Hashable
SortValue: TypeAlias = str | float | None
_Item = TypeVar("_Item", contravariant=True)
_EMPTY: Span = ("", "dim")


class Column(Struct, Generic[_Item], frozen=True):
    """A column of a table whose rows show items of one type. All that is said of it stands here.

    `width` 0 takes the remaining space. `min_pane_width`: the column is left out in narrower panes. `wide_width`: its
    width in wide panes.
    """

    title: str
    """Unique in its table: the operator hides a column by it."""
    width: int
    cell: Callable[[_Item], Span]
    """What an item shows: a text and its role."""
    sort: Callable[[_Item], SortValue] | None
    """What rows are sorted by; None: they are not sorted by this column."""
    help: str
    """What the cells say, for the list of columns."""
    right: bool = False
    min_pane_width: int = 0
    wide_width: int = 0
    keeps_end: bool = False
    """A name or URL that is too long loses its middle instead of its end."""


AnyColumn: TypeAlias = Column[Never]
"""A column whatever its rows show."""


class Row(Struct, frozen=True):
    """A row: a unique key, cells as text and role, and values to sort by."""

    key: RowKey
    cells: tuple[Span, ...]
    """If they are fewer than the columns, the last one takes the room of the rest."""
    sort_values: tuple[SortValue, ...] = ()
    """One a column. Rows without them stay last."""
    subject: Any = None
    """The object that the row shows."""


_Shown = TypeVar("_Shown")


def item_row(
    columns: Sequence[Column[_Shown]], key: RowKey, item: _Shown, subject: object = None,
    instead: Mapping[str, Span] | None = None,
) -> Row:  # fmt: skip
    """The row of an item. `instead`: cells by title that are not those of the item."""
    cells = {column.title: column.cell(item) for column in columns} | dict(instead or {})
    values = tuple(column.sort(item) if column.sort is not None else None for column in columns)
    return Row(key, tuple(cells.values()), values, subject)


def named_row(columns: Sequence[AnyColumn], key: RowKey, named: Mapping[str, Span], rest: Span | None = None) -> Row:
    """A row that shows no item: cells by title, others are empty. `rest` takes the room behind the last named one."""
    cells = [named.get(column.title, _EMPTY) for column in columns]
    if rest is not None:
        behind = 1 + max(place for place, column in enumerate(columns) if column.title in named)
        cells = [*cells[:behind], rest]
    return Row(key, tuple(cells))
