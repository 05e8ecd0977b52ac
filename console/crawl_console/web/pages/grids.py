"""Tables of spans as the templates draw them, with links and buttons."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from crawl_console.format import Span
from crawl_console.words.table import AnyColumn, Column, Row, item_row

_WIDE, _WIDEST = 1, 150
"""From these widths of a pane on, a column is left out in narrow windows, and in middling ones."""


class Heading(Struct, frozen=True):
    title: str
    css: str


class Cell(Struct, frozen=True):
    text: str
    css: str
    span: int = 1


class Button(Struct, frozen=True):
    """An order for one row. `asks`: a page asks first."""

    label: str
    name: str
    arguments: Mapping[str, str]
    asks: bool = False


class GridLine(Struct, frozen=True):
    key: str
    first: Cell
    cells: Sequence[Cell]
    href: str = ""
    buttons: Sequence[Button] = ()


class Grid(Struct, frozen=True):
    """A table. `caption` names it for those who do not see its place."""

    id: str
    caption: str
    headings: Sequence[Heading]
    lines: Sequence[GridLine]
    empty: str
    has_buttons: bool = False


def link(path: str, /, **parameters: object) -> str:
    """A path of this server with its query; empty values are left out."""
    given = {key: value for key, value in parameters.items() if value not in ("", None)}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def grid(
    id_: str, caption: str, columns: Sequence[AnyColumn], rows: Iterable[Row], empty: str, *,
    first: str = "", minor: Collection[str] = (), href: Callable[[Row], str] = lambda _: "",
    buttons: Callable[[Row], Sequence[Button]] | None = None,
) -> Grid:  # fmt: skip
    """`first`: the column that names a row, the first one without it. `minor`: those that a phone leaves out too."""
    order = sorted(range(len(columns)), key=lambda place: bool(first) and columns[place].title != first)
    classes = [_classes(columns[place], columns[place].title in minor) for place in range(len(columns))]
    lines = [_line(id_, row, order, classes, href(row), buttons) for row in rows]
    headings = [Heading(columns[place].title, classes[place]) for place in order]
    return Grid(id_, caption, headings, lines, empty, buttons is not None)


def figures(
    id_: str, caption: str, headings: Sequence[str], items: Iterable[tuple[str, Sequence[Span]]], empty: str,
    minor: Collection[str] = (),
) -> Grid:  # fmt: skip
    """A table of names with figures, as panes list them."""
    columns: list[Column[Sequence[Span]]] = [
        Column(title, min(place, 1), itemgetter(place), None, "", right=place > 0)
        for place, title in enumerate(headings)
    ]  # fmt: skip
    lines = [(name, [(name, "text"), *((text.strip(), role) for text, role in spans)]) for name, spans in items]
    rows = [item_row(columns, name, spans) for name, spans in lines]
    return grid(id_, caption, columns, rows, empty, minor=minor)


def _classes(column: AnyColumn, minor: bool) -> str:
    words = ["num"] if column.right else []
    if minor:
        words.append("minor")
    elif column.min_pane_width >= _WIDEST:
        words.append("widest")
    elif column.min_pane_width >= _WIDE:
        words.append("wide")
    if not column.width:
        words.append("rest")
    return " ".join(words)


def _line(
    id_: str, row: Row, order: Sequence[int], classes: Sequence[str], href: str, buttons: Any
) -> GridLine:  # fmt: skip
    key = row.key if isinstance(row.key, tuple) else (row.key,)
    cells = [
        Cell(row.cells[place][0], _css(classes[place], row.cells[place][1]))
        for place in order
        if place < len(row.cells)
    ]
    missing = len(classes) - len(row.cells)
    if missing:
        last = cells[-1]
        cells[-1] = Cell(last.text, last.css.replace("num", "").strip(), missing + 1)
    return GridLine(
        "-".join(map(str, (id_, *key))), cells[0], cells[1:], href, buttons(row) if buttons is not None else ()
    )


def _css(column: str, role: str) -> str:
    return f"{column} {role}".strip() if role != "text" else column
