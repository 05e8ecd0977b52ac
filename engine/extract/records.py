"""A dataDef at work: blocks into rows, and the page's links. Knows definitions and pages; no steps, no stores."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from engine.extract.budget import Effort, TooMuch
from engine.extract.context import Context
from engine.extract.fields import Reader, Unfit
from engine.extract.filters import Sieve
from engine.extract.links import Followed
from engine.extract.page import Page
from engine.extract.selectors import Scope, Selector, compiled
from engine.model.definition import DataDef
from engine.model.record import Extraction, Rejection

_NO_PRIORITIES: Mapping[str, int] = MappingProxyType({})


class Extractor:
    """A dataDef in record mode, compiled once for many pages. May be used by several threads.

    `priorities` gives each group's priority, for links that name none. Nothing in a dataDef makes it raise:
    what cannot be compiled becomes rejections that say so.
    """

    def __init__(self, data_def: DataDef, priorities: Mapping[str, int] = _NO_PRIORITIES) -> None:
        self._data_def = data_def
        self._readers = tuple(Reader(field) for field in data_def.fields)
        self._sieves = tuple(Sieve(written_filter, data_def) for written_filter in data_def.filters)
        self._links = Followed(data_def, priorities)
        self._fault = ""
        self._block: Selector | None = None
        try:
            self._block = None if data_def.block is None else compiled(data_def.block)
        except ValueError as error:
            self._fault = f"query.block: {error}"

    def extract(self, page: Page, context: Context) -> Extraction:
        """What the page gives: a row for each block that is fit and not filtered, and the links.

        Without `block` the page is one record, even with all its fields missing. Raises `PageTooDeep` alone.
        """
        effort = Effort(page, context)
        rows: list[Mapping[str, Any]] = []
        rejected: list[Rejection] = []
        filtered = 0
        if self._fault:
            rejected.append(self._rejection("", self._fault, str(self._data_def.place)))
        try:
            for scope in self._scopes(page):
                effort.check_time()
                try:
                    row = {reader.name: reader.value(scope, effort) for reader in self._readers}
                    if any(sieve.drops(row, effort.patience) for sieve in self._sieves):
                        filtered += 1
                    else:
                        rows.append(row)
                except Unfit as unfit:
                    rejected.append(self._rejection(unfit.field, unfit.reason, str(unfit.place)))
        except TooMuch as much:
            rejected.append(self._rejection("", str(much), str(self._data_def.place)))
        links, hindered = self._links.of(effort)
        return Extraction(
            data_def=self._data_def.name,
            rows=tuple(rows),
            links=links,
            rejected=(*rejected, *hindered),
            filtered=filtered,
        )

    def _scopes(self, page: Page) -> list[Scope]:
        if not self._readers or self._fault:
            return []
        if self._block is None:
            return [Scope(page)]
        return [Scope(page, node) for node in self._block.all(Scope(page))]

    def _rejection(self, field: str, reason: str, place: str) -> Rejection:
        return Rejection(data_def=self._data_def.name, field=field, reason=reason, place=place)
