"""Converts a table to `query.block` and `fields`."""

from collections.abc import Mapping

import regex
from msgspec import Struct, field

from engine.defs.conversion.notes import NotConvertible
from engine.defs.conversion.obstacles import date_format
from engine.defs.conversion.selectors import (
    MISSED_BLOCK,
    RecordSelector,
    block_selector,
    fill,
    in_block,
    on_page,
    spread,
)
from engine.defs.conversion.yaml_parts import Part
from engine.model.axis import FACT, ITEM, Axis, AxisTable
from engine.model.variables import variable_names

_INDEX = f"{ITEM}.index"
_PAGE = "html"
"""As a block: the page as a browser builds it, which XPath of a table reads."""
_FETCHED = "%{document.fetchedAt}"
_FIRST: Mapping[str, str] = {
    "css": "a field takes the first element that matches; the table joins the texts of all",
    "xpath": "a field takes the first node that matches; the table takes the last, of the last block",
}
_IN_BLOCKS = "a record is one block, so that an index has as many rows as blocks, and none without one"
_ITEMS_AS_FIELDS = "a page is one record, and its items are fields, not rows"
_SPECIAL = frozenset("\\.^$*+?{}[]()|")


class Records(Struct, frozen=True, kw_only=True):
    """The keys of a dataDef that makes records of a table, and in what they differ from its rows."""

    parts: Mapping[str, Part]
    differences: tuple[str, ...] = ()


class _Builder(Struct):
    """Collects the fields of one table."""

    table: AxisTable
    in_blocks: bool
    """Whether each index of the item has a block of its own; else the page is one record."""
    texts: dict[str, str] = field(default_factory=dict)
    """The variables that are the same in all rows."""
    fields: dict[str, Part] = field(default_factory=dict)
    filters: list[Part] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    takes_first: bool = False
    """Whether a field takes the first match, where the table takes others, too."""

    def add(self, name: str, axis: Axis, variable: str, *, is_fact: bool = False) -> None:
        """The field of an axis."""
        if name in self.fields:
            raise NotConvertible(f"two fields would have the name '{name}'")
        constant = _constant(axis)
        if constant is not None:
            self.fields[name] = {"value": self._value(axis, constant)}
        else:
            spec = self._selected(name, axis, variable)
            if is_fact:
                self._complete_fact(axis, spec)
            self.fields[name] = spec
        self.filters += [{"field": name, "pattern": _filter_pattern(rule.type, rule.pattern)} for rule in axis.filters]

    def _value(self, axis: Axis, text: str) -> str:
        if axis.script is not None and axis.value is None and axis.match is None:
            if self.table.date_pattern is not None:
                difference = f"'{axis.name}' is written as 2024-01-31T09:05:00Z, not as {self.table.date_pattern}"
                self.differences.append(difference)
            return "".join(reversed([_escaped(prefix) for prefix in axis.prefix])) + _FETCHED
        if not text.strip() or text != " ".join(text.split()):
            raise NotConvertible(
                f"'{axis.name}': a constant of a record cannot be blank, or have white space around it"
            )
        return _escaped(text)

    def _selected(self, name: str, axis: Axis, variable: str) -> dict[str, Part]:
        if axis.selector is None:
            raise NotConvertible(f"'{axis.name}' has no selector")
        flavour = self.table.flavour or "css"
        own = {"index": str(axis.first), f"{variable}.index": str(axis.first)}
        if variable == ITEM and self.in_blocks and axis.first != axis.last:
            own = {}  # its index is that of the block
        text = fill(axis.selector, {**self.texts, **own}, flavour)
        if self.in_blocks:
            found = in_block(self.table.block, text, flavour)
        else:
            found = on_page(fill(self.table.block, self.texts, flavour), text, flavour)
        spec = _selector_parts(found)
        self.takes_first |= not found.all
        if found.all:
            self.differences.append(f"'{name}' has all matches: joined in CSV as in the table, else a list")
        if found.misses_block:
            self.differences.append(f"'{name}' {MISSED_BLOCK}")
        converter = next((c for c in self.table.converters if c.column == _column(variable)), None)
        written = None if converter is None else date_format(converter)
        if written is not None:
            spec |= {"type": "date", "format": written}
        return spec

    def _complete_fact(self, axis: Axis, spec: dict[str, Part]) -> None:
        """What stands for a missing fact, unless a filter drops it."""
        default = self.table.fact_not_found
        patterns = [_filter_pattern(rule.type, rule.pattern) for rule in axis.filters]
        if any(regex.fullmatch(pattern, "") for pattern in patterns):
            return
        if any(regex.fullmatch(pattern, default) for pattern in patterns):
            raise NotConvertible(f"a filter of the fact would drop '{default}', which stands for a missing one")
        spec["default"] = default
        blank = self.table.fact_blank
        if blank != default:
            self.differences.append(f"a blank fact is '{default}' like a missing one; in the table it is '{blank}'")


def convert_rows(table: AxisTable) -> Records:
    """The records of a table that `find_obstacles` finds nothing in. Raises NotConvertible."""
    flavour = table.flavour or "css"
    item, *others = table.items
    in_blocks = _INDEX in variable_names(table.block)
    if in_blocks and others:
        raise NotConvertible("the block depends on the index of several items")
    if not in_blocks and item.first != item.last:
        raise NotConvertible(f"'{item.name}' has several indexes, and no block of its own for each: no `%{{{_INDEX}}}`")
    builder = _Builder(table, in_blocks, texts=_constants(table))
    builder.fields |= {"locator": {"value": "%{locator.name}"}, "group": {"value": "%{locator.group}"}}
    query: dict[str, Part] = {}
    if in_blocks:
        block = spread(table.block, _INDEX, item.first, item.last, flavour)
        query["block"] = block_selector(fill(block, builder.texts, flavour), flavour)
    elif flavour == "xpath":
        query["block"] = _PAGE
    constant_items = all(_constant(each) is not None for each in table.items)
    if in_blocks or not constant_items:
        builder.add(ITEM, item, ITEM)
    for dim in table.dims:
        builder.add(dim.name, dim, f"dim.{dim.name}")
    if in_blocks or not constant_items:
        builder.add(FACT, table.facts[0], FACT, is_fact=True)
        if item.last is None:
            _end_of_open_range(item, builder)
    else:
        for each in table.items:
            _set_item(builder.texts, each)
            builder.add(each.name, table.facts[0], FACT, is_fact=True)
        if item.filters:
            raise NotConvertible(f"'{item.name}': its filters drop a row, and here it is a field")
    parts: dict[str, Part] = {"query": query} if query else {}
    parts["fields"] = builder.fields
    if builder.filters:
        parts["filters"] = builder.filters
    general = [_IN_BLOCKS] if in_blocks else [_ITEMS_AS_FIELDS] if constant_items else []
    general += [_FIRST[flavour]] if builder.takes_first else []
    differences = tuple(dict.fromkeys(general + builder.differences))
    return Records(parts=parts, differences=differences)


def _end_of_open_range(item: Axis, builder: _Builder) -> None:
    if _constant(item) is not None:
        raise NotConvertible(f"'{item.name}' has an open range, and a value that never ends it")
    builder.filters.append({"field": ITEM, "pattern": ""})
    builder.differences.append(f"blocks without '{item.name}' are dropped; in the table the first of them is the end")


def _constants(table: AxisTable) -> dict[str, str]:
    """The variables that have one value in all rows."""
    texts: dict[str, str] = {}
    axes = [(f"dim.{dim.name}", dim) for dim in table.dims]
    if len(table.items) == 1:
        axes.append((ITEM, table.items[0]))
    for name, axis in axes:
        texts[f"{name}.match"] = axis.match or ""
        if axis.first == axis.last:
            texts[f"{name}.index"] = str(axis.first)
        constant = _constant(axis)
        if constant is not None and axis.script is None:
            texts[f"{name}.value"] = constant
    return texts


def _set_item(texts: dict[str, str], item: Axis) -> None:
    texts |= {
        f"{ITEM}.index": str(item.first), f"{ITEM}.match": item.match or "", f"{ITEM}.value": _constant(item) or "",
    }  # fmt: skip


def _constant(axis: Axis) -> str | None:
    """The value of an axis that selects nothing; of a script, what it stands for. None: it is selected."""
    if axis.value is not None:
        text = axis.value
    elif axis.match is not None:
        text = axis.match.replace("\\", "")
    else:
        return None if axis.script is None else _FETCHED
    for prefix in axis.prefix if text.strip() else ():
        text = prefix + text
    return text


def _column(variable: str) -> str:
    return variable.removeprefix("dim.")


def _selector_parts(found: RecordSelector) -> dict[str, Part]:
    spec: dict[str, Part] = {"selector": found.selector}
    if found.attribute is not None:
        spec["attribute"] = found.attribute
    return {**spec, "all": True, "join": " "} if found.all else spec


def _filter_pattern(kind: str, pattern: str) -> str:
    text = "" if pattern == " " else pattern
    return text if kind == "match" else "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


def _escaped(text: str) -> str:
    """A constant in which no variable is read."""
    return text.replace("%{", "%%{")
