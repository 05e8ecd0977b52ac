"""Reads an HTML table as a list of objects: its cells stand on their grid, as browsers lay them out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from engine.extract.page.budget import Budget
from engine.extract.select.node_value import JsonValue, read_node, read_text

if TYPE_CHECKING:
    from lxml.etree import _Element

    from engine.extract.select.node_value import SelectedNode

_MAX_COLUMNS, _MAX_ROWS = 1_000, 65_534
"""Of one cell, as in HTML."""
_INTEGER = re.compile(r"[\t\n\f\r ]*(?:\+|-(?=0+(?![0-9])))?([0-9]+)")
_GROUPS = ("thead", "tbody", "tfoot")
_CELLS = ("td", "th")
_Line = dict[int, str]
"""The texts of a row by column."""


def find_table(node: LexborNode | None) -> LexborNode | None:
    """The element if it is a table, else the first table in it."""
    return node if node is None or node.tag == "table" else node.css_first("table")


def read_table(table: LexborNode, budget: Budget) -> list[dict[str, str | None]]:
    """An object for each body row, by the headings of its columns; None where no cell is.

    Header rows are those of `thead`, else the first row; all other rows are body rows, those of `tfoot` last. Raises
    PageTooCostly and OutOfTime.
    """
    header, body, last = list[_Line](), list[_Line](), list[_Line]()
    columns = set[int]()
    for name, rows in _row_groups(table):
        part = header if name == "thead" else last if name == "tfoot" else body
        part += filter(None, _lay_out(rows, columns, budget))
    body += last
    if not header:
        header, body = body[:1], body[1:]
    headings = _find_headings(header, sorted(columns))
    names = "".join(headings.values())
    objects = []
    for line in body:
        budget.charge_parts(1, names)
        budget.charge_parts(len(headings))
        objects.append({heading: line.get(column) for column, heading in headings.items()})
    return objects


def _row_groups(table: LexborNode) -> Iterator[tuple[str, list[LexborNode]]]:
    """The rows of each group with its tag. A row group ends each span."""
    for group in table.iter():
        if group.tag in _GROUPS:
            yield str(group.tag), [row for row in group.iter() if row.tag == "tr"]


def _lay_out(rows: Sequence[LexborNode], columns: set[int], budget: Budget) -> list[_Line]:
    """The rows of a group on their grid. Adds to `columns` those in which a cell begins: others only repeat one."""
    grid: list[_Line] = [{} for _ in rows]
    for index, row in enumerate(rows):
        budget.time_budget.check_patience()
        column = 0
        for cell in row.iter():
            if cell.tag not in _CELLS:
                continue
            while column in grid[index]:
                column += 1
            text = " ".join((read_text(cell) or "").split())
            width, height = _read_spans(cell)
            covered = grid[index : index + height] if height else grid[index:]
            budget.charge_parts(width * len(covered), text)
            for line in covered:
                for at in range(column, column + width):
                    line.setdefault(at, text)
            columns.add(column)
            column += width
    return grid


def _find_headings(header: Sequence[_Line], columns: Iterable[int]) -> dict[int, str]:
    """The lowest text above each column; equal ones are numbered, since an object has each name once."""
    headings: dict[int, str] = {}
    taken = set[str]()
    numbers: dict[str, int] = {}
    """By text: the last number given to it. Without it, n equal headings cost n² searches."""
    for column in columns:
        text = next(filter(None, (line.get(column) for line in reversed(header))), f"column {column + 1}")
        name = text
        while name in taken:
            numbers[text] = numbers.get(text, 1) + 1
            name = f"{text} {numbers[text]}"
        taken.add(name)
        headings[column] = name
    return headings


def _read_spans(cell: "LexborNode | _Element") -> tuple[int, int]:
    """Columns and rows that a cell covers; 0 rows: all to the end of its group."""
    width, height = _read_integer(cell, "colspan"), _read_integer(cell, "rowspan")
    return min(width or 1, _MAX_COLUMNS), 1 if height is None else min(height, _MAX_ROWS)


def _read_integer(cell: "LexborNode | _Element", name: str) -> int | None:
    found = _INTEGER.match(read_node(cell, name) or "")
    return None if found is None else int(found[1].lstrip("0")[:6] or "0")


def meets_span(blocks: "Sequence[SelectedNode]", budget: Budget) -> bool:
    """Whether a cell of one of these rows covers several cells, or one above it in its group reaches down to it."""
    rows = [block for block in blocks if not isinstance(block, JsonValue | str) and block.tag == "tr"]
    wanted = {_identity(row) for row in rows}
    groups = {_identity(group): group for row in rows if (group := _parent(row)) is not None}
    for group in groups.values():
        left = 0
        for row in _children(group, "tr"):
            budget.time_budget.check_patience()
            spans = [_read_spans(cell) for cell in _children(row, *_CELLS)]
            if _identity(row) in wanted and (left or any(span != (1, 1) for span in spans)):
                return True
            left = max([left - 1, 0, *[(height or _MAX_ROWS) - 1 for _, height in spans]])
    return False


def _identity(node: "LexborNode | _Element") -> int:
    return node.mem_id if isinstance(node, LexborNode) else id(node)


def _parent(node: "LexborNode | _Element") -> "LexborNode | _Element | None":
    return node.parent if isinstance(node, LexborNode) else node.getparent()


def _children(node: "LexborNode | _Element", *tags: str) -> "list[LexborNode | _Element]":
    return [child for child in (node.iter() if isinstance(node, LexborNode) else node) if child.tag in tags]
