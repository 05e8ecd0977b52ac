"""Lays out an HTML table: rows, cells on their grid as in browsers, headings of columns."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.node_value import JsonValue, read_node, read_text
from crawl_engine.extract.select.selector_syntax import TableHeader

if TYPE_CHECKING:
    from lxml.etree import _Element

    from crawl_engine.extract.select.node_value import SelectedNode


TableNode: TypeAlias = "LexborNode | _Element"
_MAX_COLUMNS, _MAX_ROWS = 1_000, 65_534
"""Of one cell, as in HTML."""
_INTEGER = re.compile(r"[\t\n\f\r ]*(?:\+|-(?=0+(?![0-9])))?([0-9]+)")
_GROUPS = ("thead", "tbody", "tfoot")
_CELLS = ("td", "th")
_Value = TypeVar("_Value")


class RowParts(Struct, frozen=True):
    """The rows of a table, in their groups: a row group ends each span."""

    groups: tuple[tuple[str, list[TableNode]], ...]
    """Each with its tag, those of `tfoot` last."""
    header: tuple[TableNode, ...]
    body: tuple[TableNode, ...]


def find_table(node: "TableNode | None") -> "TableNode | None":
    """The element if it is a table, else the first table in it."""
    if node is None or node.tag == "table":
        return node
    return node.css_first("table") if isinstance(node, LexborNode) else next(node.iter("table"), None)


def split_rows(table: TableNode, header: TableHeader | None = None) -> RowParts:
    """The header rows and the body rows of a table.

    Without `header`, the header rows are those of `thead`, else the first row. With `rows`, a row of `th` alone is no
    body row: tables repeat their headings.
    """
    groups = sorted(_row_groups(table), key=lambda group: group[0] == "tfoot")
    every = [row for _, part in groups for row in part]
    with_cells = (row for row in every if children(row, *_CELLS))
    headings = [row for name, part in groups if name == "thead" for row in part]
    if header == "first" or not any(children(row, *_CELLS) for row in headings):
        headings = list(takewhile(_is_heading, with_cells) if header == "rows" else islice(with_cells, 1))
    known = set(map(identity, headings))
    body = [row for row in every if identity(row) not in known]
    if header == "rows":
        body = [row for row in body if children(row, "td") or not children(row, "th")]
    return RowParts(tuple(groups), tuple(headings), tuple(body))


def _row_groups(table: TableNode) -> Iterator[tuple[str, list[TableNode]]]:
    """The rows of each group with its tag. In a tree of XPath, rows may stand in the table itself."""
    loose: list[TableNode] = []
    for group in children(table, *_GROUPS, "tr"):
        if group.tag == "tr":
            loose.append(group)
            continue
        if loose:
            yield "tbody", loose
            loose = []
        yield str(group.tag), children(group, "tr")
    if loose:
        yield "tbody", loose


def _is_heading(row: TableNode) -> bool:
    return bool(children(row, "th")) and not any(cell_text(cell) for cell in children(row, "td"))


def cell_text(cell: TableNode) -> str:
    return " ".join((read_text(cell) or "").split())


def lay_out(
    rows: RowParts, reading: PageReading, read: "Callable[[TableNode], _Value]"
) -> tuple[dict[int, dict[int, _Value]], list[int]]:
    """What `read` gives of the cells of each row, by its identity and then by column, and the columns.

    Rows without cells, and columns in which none begins, are left out. Raises PageTooCostly and OutOfTime.
    """
    lines: dict[int, dict[int, _Value]] = {}
    columns = set[int]()
    for _, group in rows.groups:
        grid: list[dict[int, _Value]] = [{} for _ in group]
        for index, row in enumerate(group):
            reading.time_budget.check_patience()
            line, column = grid[index], 0
            for cell in children(row, *_CELLS):
                while column in line:
                    column += 1
                columns.add(column)
                value = read(cell)
                text = value if isinstance(value, str) else ""
                width, height = read_spans(cell)
                if width == height == 1:  # most cells
                    reading.charge_parts(1, text)
                    line[column] = value
                    column += 1
                    continue
                covered = grid[index : index + height] if height else grid[index:]
                reading.charge_parts(width * len(covered), text)
                for below in covered:
                    for at in range(column, column + width):
                        below.setdefault(at, value)
                column += width
            if line:
                lines[identity(row)] = line
    return lines, sorted(columns)


def find_headings(
    header: Sequence[Mapping[int, str]],
    columns: Iterable[int],
    reading: PageReading,
    *,
    joined: bool,
    noun: str = "column",
) -> dict[int, str]:
    """The headings of the columns: the lowest text above each, or all texts above it, `joined` by ` / `.

    Equal ones are joined, too, and those that still are equal are numbered: an object has each name once. `noun`: what
    one without a text is called.
    """
    paths = {column: _texts_above(header, column) for column in columns}
    lowest = Counter(path[-1] for path in paths.values() if path)
    headings: dict[int, str] = {}
    taken = set[str]()
    numbers: dict[str, int] = {}
    """By text: the last number given to it. Without it, n equal headings cost n² searches."""
    for column, path in paths.items():
        reading.time_budget.check_patience()
        text = f"{noun} {column + 1}" if not path else path[-1]
        if joined or lowest[text] > 1:
            text = " / ".join(path) or text
        reading.charge(text)
        name = text
        while name in taken:
            numbers[text] = numbers.get(text, 1) + 1
            name = f"{text} {numbers[text]}"
        taken.add(name)
        headings[column] = name
    return headings


def _texts_above(header: Sequence[Mapping[int, str]], column: int) -> list[str]:
    """The texts above a column from the top; one that spans rows once."""
    texts = [text for line in header if (text := line.get(column))]
    return [text for text, before in zip(texts, chain([""], texts), strict=False) if text != before]


def read_spans(cell: TableNode) -> tuple[int, int]:
    """Columns and rows that a cell covers; 0 rows: all to the end of its group."""
    width, height = _read_integer(cell, "colspan"), _read_integer(cell, "rowspan")
    return min(width or 1, _MAX_COLUMNS), 1 if height is None else min(height, _MAX_ROWS)


def _read_integer(cell: TableNode, name: str) -> int | None:
    found = _INTEGER.match(read_node(cell, name) or "")
    return None if found is None else int(found[1].lstrip("0")[:6] or "0")


def read_table(table: TableNode, reading: PageReading) -> list[dict[str, str | None]]:
    """An object for each body row, by the headings of its columns; None where no cell is.

    Header rows are those of `thead`, else the first row; all other rows are body rows, those of `tfoot` last. Raises
    PageTooCostly and OutOfTime.
    """
    rows = split_rows(table)
    lines, columns = lay_out(rows, reading, cell_text)
    header = [lines[identity(row)] for row in rows.header if identity(row) in lines]
    headings = find_headings(header, columns, reading, joined=False)
    names = "".join(headings.values())
    objects = []
    for line in [lines[identity(row)] for row in rows.body if identity(row) in lines]:
        reading.charge_parts(1, names)
        reading.charge_parts(len(headings))
        objects.append({heading: line.get(column) for column, heading in headings.items()})
    return objects


def read_columns(table: TableNode, reading: PageReading) -> tuple[list[dict[str, TableNode]], bool]:
    """The cells of each column behind the headings, by the headings of their rows, and whether there are headings.

    Headings stand in the first column, or in the leading ones of `th` and blank cells alone. A row that is one cell
    is the title of those below it. Raises PageTooCostly and OutOfTime.
    """
    lines, columns = lay_out(split_rows(table), reading, lambda cell: cell)
    grid = [line for line in lines.values() if len({identity(cell) for cell in line.values()}) > 1]
    leading = [*takewhile(lambda column: _is_heading_column(grid, column), columns)]
    if not leading or len(leading) == len(columns):
        leading = columns[:1]
    texts = [{at: cell_text(line[column]) for at, line in enumerate(grid) if column in line} for column in leading]
    headings = find_headings(texts, range(len(grid)), reading, joined=True, noun="row")
    records = [
        {headings[at]: line[column] for at, line in enumerate(grid) if column in line}
        for column in columns[len(leading) :]
    ]
    return [record for record in records if record], any(text for line in texts for text in line.values())


def join_row(cells: Sequence[TableNode], reading: PageReading) -> "TableNode | None":
    """A row of copies of the cells, each once, in a table of its own."""
    each = [*{identity(cell): cell for cell in cells}.values()]
    if isinstance(each[0], LexborNode):
        markup = "".join([cell.html or "" for cell in each if isinstance(cell, LexborNode)])
        reading.charge(markup)
        return LexborHTMLParser(f"<table><tr>{markup}</table>").css_first("tr")
    from copy import deepcopy

    from lxml import etree  # HTML does not load it

    row = etree.Element("tr")
    row.extend(deepcopy(cell) for cell in each if isinstance(cell, etree._Element))
    return row


def _is_heading_column(grid: Sequence[Mapping[int, TableNode]], column: int) -> bool:
    cells = [line[column] for line in grid if column in line]
    return any(cell.tag == "th" for cell in cells) and not any(cell.tag == "td" and cell_text(cell) for cell in cells)


def read_table_columns(table: TableNode, reading: PageReading) -> list[dict[str, str | None]]:
    """An object for each column behind the headings, which stand in the first one. Raises as `read_table`."""
    records, _ = read_columns(table, reading)
    names = dict.fromkeys([name for record in records for name in record])
    objects: list[dict[str, str | None]] = []
    for record in records:
        reading.charge_parts(1 + len(names), "".join(names))
        objects.append({name: cell_text(record[name]) if name in record else None for name in names})
    return objects


def meets_span(blocks: "Sequence[SelectedNode]", reading: PageReading) -> bool:
    """Whether a cell of one of these rows covers several cells, or one above it in its group reaches down to it."""
    rows = [block for block in blocks if not isinstance(block, JsonValue | str) and block.tag == "tr"]
    wanted = {identity(row) for row in rows}
    groups = {identity(group): group for row in rows if (group := _parent(row)) is not None}
    for group in groups.values():
        left = 0
        for row in children(group, "tr"):
            reading.time_budget.check_patience()
            spans = [read_spans(cell) for cell in children(row, *_CELLS)]
            if identity(row) in wanted and (left or any(span != (1, 1) for span in spans)):
                return True
            left = max([left - 1, 0, *[(height or _MAX_ROWS) - 1 for _, height in spans]])
    return False


def identity(node: TableNode) -> int:
    return node.mem_id if isinstance(node, LexborNode) else id(node)


def _parent(node: TableNode) -> "TableNode | None":
    return node.parent if isinstance(node, LexborNode) else node.getparent()


def children(node: TableNode, *tags: str) -> list[TableNode]:
    return [child for child in (node.iter() if isinstance(node, LexborNode) else node) if child.tag in tags]
