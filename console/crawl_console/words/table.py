"""Tables of spans: their columns and rows, however they are drawn."""

from collections.abc import Hashable
from typing import Any

from msgspec import Struct

from crawl_console.format import Span

RowKey = Hashable


class Column(Struct, frozen=True):
    """A column. Width 0 takes the remaining space.

    `min_pane_width`: the column is left out in narrower panes. `wide_width`: its width in wide panes.
    """

    title: str
    width: int
    right: bool = False
    min_pane_width: int = 0
    wide_width: int = 0
    keeps_end: bool = False
    """A name or URL that is too long loses its middle instead of its end."""


class Row(Struct, frozen=True):
    """A row: a unique key, cells as text and role, and values to sort by."""

    key: RowKey
    cells: tuple[Span, ...]
    """If they are fewer than the columns, the last one takes the room of the rest."""
    sort_values: tuple[Any, ...] = ()
    """Rows without them stay last."""
    subject: Any = None
    """The object that the row shows."""
