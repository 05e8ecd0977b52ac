"""Reads the rows of a table: every item with every value of its dimensions, and a fact."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from crawl_engine import urls
from crawl_engine.extract.page.patterns import TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.tables.axis_finder import AxisFinder, CssFinder, XPathFinder, render_selector
from crawl_engine.extract.tables.table_rows import TableInvalid, TableRows
from crawl_engine.model.axis import FACT, FROM_DATE_PATTERN, ITEM, Axis, AxisTable, DateConverter
from crawl_engine.model.job import locator_key
from crawl_engine.model.record import ExtractedLink
from crawl_engine.runtime.java_date import DateInvalid, format_date, parse_date, roll_day
from crawl_engine.urls import QueryStripper

_MAX_INDEX = 100_000
"""An open range fails at this index: its selector probably matches for any index."""


class _Values(Struct):
    """The variables of the axes read so far."""

    texts: dict[str, str] = field(default_factory=dict)
    of_page: set[str] = field(default_factory=set)
    """The names of variables that come from the page."""

    def enter(self, name: str, axis: Axis, index: int) -> None:
        """Set the index of an axis whose value is not known yet."""
        texts = self.texts
        texts["index"] = texts[f"{name}.index"] = str(index)
        texts[f"{name}.value"] = ""
        texts[f"{name}.match"] = axis.match or ""

    def set(self, name: str, axis: Axis, value: str | None) -> None:
        self.texts[f"{name}.value"] = value or ""
        if axis.selector is not None:
            self.of_page.add(f"{name}.value")


class AxisTableReader:
    """A table, compiled once for many pages."""

    def __init__(
        self, table: AxisTable, priorities: Mapping[str, int], query_stripper: QueryStripper | None = None
    ) -> None:
        self._table = table
        self._query_stripper = query_stripper
        self._priorities = priorities
        self._patterns: dict[str, TimedPattern] = {}

    def read(self, reading: PageReading) -> TableRows:
        """The rows of a page, its links, and how they were filled.

        Raises TableInvalid, PatternTimeout, PageTooCostly, and ValueError for a selector that cannot be parsed.
        """
        page = _PageReader(self._table, reading)
        try:
            return self._read_page(page, reading)
        finally:
            page.close()

    def _read_page(self, page: "_PageReader", reading: PageReading) -> TableRows:
        rows: list[dict[str, Any]] = []
        links: dict[str, ExtractedLink] = {}
        missing = dict.fromkeys((ITEM, *(dim.name for dim in self._table.dims), FACT), 0)
        filtered = 0
        for item in self._table.items:
            for fact in self._table.facts:
                for row, dropped, has_fact in self._read_template(item, fact, page, reading):
                    if dropped:
                        filtered += 1
                        continue
                    rows.append(row)
                    for column in missing:
                        missing[column] += row[column] is None
                    missing[FACT] += not has_fact
                    link = self._link_of(item, row[ITEM], reading)
                    if link is not None:
                        links.setdefault(link.url, link)
        return TableRows(rows, list(links.values()), filtered, tuple(missing.items()))

    def _read_template(
        self, item: Axis, fact: Axis, page: "_PageReader", reading: PageReading
    ) -> Iterator[tuple[dict[str, Any], bool, bool]]:
        """Each row, whether a filter drops it, and whether the page has its fact."""
        context = reading.context
        dims = [(f"dim.{dim.name}", dim) for dim in self._table.dims]
        for values in page.expand([(ITEM, item), *dims, (FACT, fact)]):
            reading.time_budget.check_patience()
            item_value, *dim_values, fact_value = values
            row: dict[str, Any] = {"locator": context.locator, "group": context.group, ITEM: item_value}
            row |= {dim.name: value for dim, value in zip(self._table.dims, dim_values, strict=True)}
            row[FACT] = self._fact(fact_value)
            axes = (item, *self._table.dims, fact)
            dropped = any(self._drops(axis, value, reading) for axis, value in zip(axes, values, strict=True))
            has_fact = fact_value is not None and fact_value != "null" and not fact_value.isspace() and fact_value != ""
            yield (row if dropped else self._convert(row)), dropped, has_fact

    def _fact(self, value: str | None) -> str:
        if value is None or value == "null":
            return self._table.fact_not_found
        return value if value.strip() else self._table.fact_blank

    def _drops(self, axis: Axis, value: str | None, reading: PageReading) -> bool:
        text = value or ""
        for rule in axis.filters:
            pattern = "" if rule.pattern == " " else rule.pattern
            if rule.type == "value":
                if text == pattern:
                    return True
                continue
            compiled = self._patterns.get(pattern)
            if compiled is None:
                compiled = self._patterns[pattern] = TimedPattern(pattern)
            if compiled.fullmatch(text, reading.time_budget):
                return True
        return False

    def _convert(self, row: dict[str, Any]) -> dict[str, Any]:
        for converter in self._table.converters:
            text = row.get(converter.column)
            if text:
                try:
                    row[converter.column] = _convert_date(text, converter)
                except DateInvalid as error:
                    raise TableInvalid(f"{converter.column}: {error}") from None
        return row

    def _link_of(self, item: Axis, value: str | None, reading: PageReading) -> ExtractedLink | None:
        group = item.link_group
        if not self._table.makes_links or group is None or not value or not value.strip():
            return None
        if value in item.link_break_on:
            return None
        url = None if urls.is_file_url(value) else self._resolve(value, reading.page.base, group)
        if url is None:
            raise TableInvalid(f"{item.name}: no usable URL: {value[:200]}", item.place)
        url = urls.without_credentials(url)  # credentials of a page are neither stored nor sent
        if self._query_stripper is not None:
            url = self._query_stripper.strip_url(url)
        # a locator of its own: pages of locators with different names each give their rows
        key = locator_key(group, reading.context.locator, url, "GET", None)
        return ExtractedLink(url, group, self._priorities.get(group, 0), None, key)

    def _resolve(self, value: str, page: str, group: str) -> str | None:
        """The URL of a link. A file leads only to files of its own folder, or of the folder `base_url`."""
        if self._table.base_url is None and urls.is_file_url(page) and not urls.is_http_url(value):
            return urls.resolve_below(page[: page.rfind("/") + 1], value)
        keeps_route = self._query_stripper is not None and group in self._query_stripper.routed
        return urls.resolve(value, self._table.base_url or page, keeps_route=keeps_route)


@lru_cache(maxsize=4096)
def _convert_date(text: str, converter: DateConverter) -> str:
    """The date in its new form, cached, since rows repeat dates. Raises DateInvalid."""
    date = parse_date(text, converter.in_patterns)
    return format_date(date if converter.roll is None else roll_day(date, converter.roll), converter.out_pattern)


class _PageReader:
    """Reads the values of axes on one page."""

    def __init__(self, table: AxisTable, reading: PageReading) -> None:
        self._table = table
        self._reading = reading
        self._finder: AxisFinder = XPathFinder(reading) if table.flavour == "xpath" else CssFinder(reading)
        self._found: dict[tuple[str, str], str | None] = {}
        self._selected = 0
        """How often each selector matched."""

    def close(self) -> None:
        self._finder.close()

    def expand(self, axes: Sequence[tuple[str, Axis]]) -> Iterator[list[str | None]]:
        """The values of the axes for each combination of their indexes, the last axis fastest."""
        yield from self._expand(axes, _Values(), [])

    def _expand(
        self, axes: Sequence[tuple[str, Axis]], values: _Values, read: list[str | None]
    ) -> Iterator[list[str | None]]:
        if not axes:
            yield read
            return
        (name, axis), *rest = axes
        last = _MAX_INDEX if axis.last is None else axis.last
        for index in range(axis.first, last + 1):
            self._reading.time_budget.check_patience()
            value, is_missing = self._read(name, axis, index, values)
            if axis.last is None and is_missing:
                self._end_data(axis, index)
                return
            values.set(name, axis, value)
            rows = self._expand(rest, values, [*read, value])
            if axis.last is None and axis.selector is None:  # it has a value at every index: other axes end the range
                selected = self._selected
                rows = iter(list(rows))
                if self._selected == selected:
                    self._end_data(axis, index)
                    return
            yield from rows
            if axis.last is None and value in axis.break_after:
                return
        if axis.last is None:
            raise TableInvalid(f"{axis.name}: the range has no end within {_MAX_INDEX:,} indexes", axis.place)

    def _end_data(self, axis: Axis, index: int) -> None:
        """Note that an open range ends here. Raises TableInvalid if `breakAfter` should have ended it."""
        if axis.break_after:
            raise TableInvalid(
                f"{axis.name}: no value equals {' or '.join(map(repr, axis.break_after))} of `breakAfter`; "
                f"the data ends at index {index}",
                axis.place,
            )

    def _read(self, name: str, axis: Axis, index: int, values: _Values) -> tuple[str | None, bool]:
        """The value of an axis, prefix included, and whether the page lacks it."""
        value: str | None
        values.enter(name, axis, index)
        if axis.value is not None:
            value = axis.value
        elif axis.match is not None:
            value = axis.match.replace("\\", "")
        elif axis.script is not None:
            value = self._from_date()
        else:
            value = None if axis.selector is None else self._select(axis.selector, values)
            self._selected += value is not None
        if value is None:
            return None, True
        for prefix in axis.prefix if value.strip() else ():
            value = prefix + value
        return value, False

    def _select(self, selector: str, values: _Values) -> str | None:
        block, selector = (
            render_selector(text, self._table.flavour, values.texts, values.of_page)
            for text in (self._table.block, selector)
        )
        place = block, selector
        if place not in self._found:
            self._found[place] = self._finder.find(*place)
        return self._found[place]

    def _from_date(self) -> str:
        if self._table.from_date is not None:
            return self._table.from_date
        fetched = datetime.fromtimestamp(self._reading.page.fetched_at, UTC)
        return format_date(fetched, self._table.date_pattern or FROM_DATE_PATTERN)
