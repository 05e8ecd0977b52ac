"""Notes for the end of a run which parts of a dataDef gave something, and why others did not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector_syntax import read_header_name
from crawl_engine.extract.select.selectors import compile_selector
from crawl_engine.extract.select.slips import (
    Slip,
    explain_column,
    explain_header,
    explain_selector,
    explain_values,
)
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from crawl_engine.model.record import MISS, REFUSED, SLIP, WORKED, Rejection

_NOTES = 3
"""So often a process notes the same of a part: a page may be fetched again, and its notes lost."""
BLOCK, NEXT = "block", "next"
_UNKNOWN = Slip("", is_sure=False)


def link_part(number: int) -> str:
    """The name of a link among the parts of a dataDef, from 0."""
    return f"links[{number + 1}]"


class PartWatch:
    """The parts of one dataDef that are still open: after a few pages of a sound dataDef, none is.

    What fields give is counted; so a field or block is open until it gave something, or its miss was explained. Links,
    `next` and nested fields are not counted; so they are open until they gave something a few times.
    """

    def __init__(self, data_def: DataDef) -> None:
        self._data_def = data_def
        selected = [field for field in data_def.fields if field.value is None and not field.from_step]
        self._fields = {field.name: field for field in selected} if data_def.axis is None else {}
        self._nested = {
            f"{field.name}.{inner.name}": (field, inner)
            for field in self._fields.values()
            for inner in field.fields
            if inner.value is None and not inner.from_step
        }
        self._links = {} if data_def.axis else {link_part(n): (n, one) for n, one in enumerate(data_def.links)}
        counted = [BLOCK, *self._fields] if self._fields else []
        noted = [*self._nested, *self._links, *([NEXT] if data_def.next is not None else [])]
        self.open = dict.fromkeys([*counted, *noted], _NOTES)
        """By part: how often it may still be noted that it gave something; of one that is counted, that it did not."""
        self._misses = dict.fromkeys(noted, _NOTES)
        """By part that is not counted: how often it may still be noted that it gave nothing."""

    def note_records(
        self, reading: PageReading, scopes: Iterable[Scope], rows: Sequence[Mapping[str, Any]],
        rejected: Sequence[Rejection], counts: tuple[int, int, Mapping[str, int]],
    ) -> None:  # fmt: skip
        """After a page: `counts` are its records, those that were filtered, and the missing values by field."""
        records, filtered, missing = counts
        if BLOCK in self.open:
            if records or filtered:
                del self.open[BLOCK]
            elif self._data_def.block is not None and not self._data_def.sources:
                self._explain(reading, BLOCK, explain_selector(self._data_def.block, Scope(reading.page)))
        for one in rejected[:1]:
            reading.note_sign(one.field, REFUSED, f"{one.reason} ({one.place})")
        absent = [name for name in self._fields if name in self.open and records and missing.get(name, 0) >= records]
        for name in [name for name in self._fields if name in self.open and records and name not in absent]:
            del self.open[name]
        scope = next(iter(scopes), None) if absent else None
        for name in absent:
            self._explain(reading, name, _UNKNOWN if scope is None else _explain_field(self._fields[name], scope))
        self._note_nested(reading, rows)

    def note_links(self, reading: PageReading, found: Mapping[int, int]) -> None:
        """After a page: by number of a link that applied, how many links it gave."""
        for part, (number, link) in self._links.items():
            if part in self.open and number in found:
                if found[number]:
                    self._note_work(reading, part)
                elif self._may_miss(part):
                    self._note_idle(reading, part, _explain_link(link, Scope(reading.page)))

    def note_next(self, reading: PageReading, *, found: bool) -> None:
        """After a page: whether a next one follows."""
        if NEXT not in self.open or self._data_def.next is None:
            return
        if found:
            self._note_work(reading, NEXT)
        elif self._may_miss(NEXT):
            texts = [text for _, text in self._data_def.next.variables if not text.isdecimal()]
            slips = [
                explain_header(header, reading.page)
                if (header := read_header_name(text))
                else explain_selector(text, Scope(reading.page))
                for text in texts
            ]
            miss = next((slip for slip in slips if slip.is_sure), slips[0] if slips else _UNKNOWN)
            if miss.text:  # a cursor that is null is there
                self._note_idle(reading, NEXT, miss)

    def _note_nested(self, reading: PageReading, rows: Sequence[Mapping[str, Any]]) -> None:
        for part, (outer, inner) in self._nested.items():
            objects = [one for row in rows for one in row.get(outer.name) or ()] if part in self.open else []
            if not objects:
                continue
            if any(one.get(inner.name) not in (None, "", []) for one in objects):
                self._note_work(reading, part)
            elif self._may_miss(part):
                _note_miss(reading, part, _UNKNOWN)

    def _note_work(self, reading: PageReading, part: str) -> None:
        reading.note_sign(part, WORKED, "")
        self._count_down(part)

    def _explain(self, reading: PageReading, part: str, miss: Slip) -> None:
        _note_miss(reading, part, miss)
        self._count_down(part)

    def _count_down(self, part: str) -> None:
        self.open[part] -= 1
        if not self.open[part]:
            del self.open[part]

    def _note_idle(self, reading: PageReading, part: str, miss: Slip) -> None:
        """Note that a part leads nowhere. The only page of a list has no next one, unless it shows a nearer name."""
        if miss.is_sure or self._misses[part] < _NOTES - 1:
            _note_miss(reading, part, miss)

    def _may_miss(self, part: str) -> bool:
        self._misses[part] -= 1
        return self._misses[part] >= 0


def _note_miss(reading: PageReading, part: str, miss: Slip) -> None:
    reading.note_sign(part, SLIP if miss.is_sure else MISS, miss.text)


def _explain_field(field: Field, scope: Scope) -> Slip:
    """Why a field has no value in a record."""
    if field.scope is not None:
        scope = Scope(scope.page.root if field.scope == "page" else scope.page)
    if field.column is not None:
        cell = (scope.cells or {}).get(" ".join(field.column.split()))
        if cell is None:
            return explain_column(field.column, (scope.cells or {}).keys())
        scope = Scope(scope.page, cell)
    nodes = compile_selector(field.selector).all(scope)
    if not nodes:
        return explain_selector(field.selector or "", scope) if field.selector else _UNKNOWN
    return explain_values(nodes, field.attribute, field.match, maps=bool(field.map))


def _explain_link(link: Link, scope: Scope) -> Slip:
    """Why a link leads nowhere on a page."""
    if not link.selector or link.source is not None or link.in_block:
        return _UNKNOWN
    nodes = compile_selector(link.selector).all(scope)
    if not nodes:
        return explain_selector(link.selector, scope)
    miss = explain_values(nodes, link.attribute, None, maps=False)
    return Slip(f"none of its URLs is followed{miss.text.removeprefix('nothing is left of its texts')}", is_sure=False)
