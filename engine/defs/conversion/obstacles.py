"""Finds what keeps a table from being records, so that all of it can be said at once."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from engine.defs.conversion.selectors import text_test
from engine.model.axis import ITEM, Axis, AxisTable, DateConverter
from engine.model.stored_form import SourcePosition

_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "d": "%d", "M": "%m"}
"""Of Java's date patterns, what `strptime` reads alike."""
_DATE_TOKEN = re.compile(r"[A-Za-z]+|[^A-Za-z'%]+")
_ISO_DATE = "yyyy-MM-dd"


class Obstacle(NamedTuple):
    """Where it is written, and why no record does the same."""

    place: SourcePosition
    text: str


def find_obstacles(table: AxisTable) -> list[Obstacle]:
    """What no record has, in the order of the definition."""
    test = text_test(table.block) if table.flavour == "css" else None
    found = [] if test is None else [Obstacle(table.place, f"`query.block`: records have no `{test}`")]
    axes = (*table.items, *table.dims, *table.facts)
    found += [obstacle for axis in axes for obstacle in _axis_obstacles(axis, table)]
    return found + list(_link_obstacles(table) if table.makes_links else _row_obstacles(table))


def date_format(converter: DateConverter) -> str | None:
    """The `format` of a field with `type: date` that writes the same dates; None: there is none."""
    if converter.roll is not None or converter.out_pattern != _ISO_DATE or len(converter.in_patterns) != 1:
        return None
    pattern = converter.in_patterns[0]
    parts = _DATE_TOKEN.findall(pattern)
    if "".join(parts) != pattern or {"yyyy", "d"} - {"d" if part in ("d", "dd") else part for part in parts}:
        return None
    texts = [_DIRECTIVES.get(part) if part[0].isalpha() else part for part in parts]
    return None if None in texts else "".join(map(str, texts))


def is_selected(axis: Axis) -> bool:
    """Whether the value of an axis is read from the page."""
    return axis.value is None and axis.match is None and axis.script is None


def _axis_obstacles(axis: Axis, table: AxisTable) -> Iterator[Obstacle]:
    shown = f"'{axis.name}'"
    test = text_test(axis.selector or "") if table.flavour == "css" and is_selected(axis) else None
    if test is not None:
        yield Obstacle(axis.place, f"{shown}: records have no `{test}`")
    if axis.break_after:
        yield Obstacle(axis.place, f"{shown}: `breakAfter` ends the rows at a value, and records do not see each other")
    if axis.link_break_on:
        yield Obstacle(axis.place, f"{shown}: `linkBreakOn` compares the text of a link, and `links` its URL only")
    if axis.prefix and is_selected(axis) and not table.makes_links:
        yield Obstacle(axis.place, f"{shown}: a field has no `prefix` for what a selector reads")


def _row_obstacles(table: AxisTable) -> Iterator[Obstacle]:
    for axis in table.dims:
        if axis.first != axis.last:
            yield Obstacle(axis.place, f"'{axis.name}' has several indexes, and a row for each with every item")
    if len(table.facts) > 1 or table.facts[0].first != table.facts[0].last:
        yield Obstacle(table.facts[-1].place, "several facts are rows of their own")
    if len(table.items) > 1:
        for item in table.items:
            if item.first != item.last:
                yield Obstacle(item.place, f"'{item.name}' has several indexes, and is not the only item")
            elif is_selected(item):
                yield Obstacle(item.place, f"'{item.name}' selects its value, and is not the only item")
            elif item.filters:
                yield Obstacle(item.place, f"'{item.name}': its filters drop a row, and here it is a field")
        if table.facts[0].filters:
            yield Obstacle(table.facts[0].place, "the filters of the fact drop a row, and here it is a field")
    yield from _converter_obstacles(table)


def _converter_obstacles(table: AxisTable) -> Iterator[Obstacle]:
    selected = {dim.name: dim for dim in table.dims if is_selected(dim)}
    if is_selected(table.items[0]):
        selected[ITEM] = table.items[0]
    columns: set[str] = set()
    for converter in table.converters:
        axis = selected.get(converter.column)
        if converter.roll is not None:
            yield Obstacle(table.place, f"a DateRoller rolls '{converter.column}', and no field does")
        elif date_format(converter) is None or converter.column in columns:
            text = f"a date of '{converter.column}' is written as {converter.out_pattern}"
            yield Obstacle(table.place, f"{text}; a field reads one pattern, and writes 2024-01-31")
        elif axis is None or axis.filters:
            text = f"the date '{converter.column}' is not a value of the page alone, or is filtered as it is there"
            yield Obstacle(table.place, text)
        columns.add(converter.column)


def _link_obstacles(table: AxisTable) -> Iterator[Obstacle]:
    if table.dims:
        yield Obstacle(table.dims[0].place, "links of items with dims")
    for item in table.items:
        if item.filters:
            yield Obstacle(item.place, f"'{item.name}': `links` have no filters for the text of a link")
        if item.link_group is not None and not is_selected(item):
            yield Obstacle(item.place, f"'{item.name}': its link is not selected on the page")
