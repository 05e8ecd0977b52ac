"""Drops records by the written text of a field. Knows rows and patterns; no pages."""

from collections.abc import Mapping
from typing import Any

from engine.extract.fields import Unfit
from engine.extract.patterns import Patience, Pattern, TooSlow
from engine.model.definition import DataDef, Filter
from engine.model.text_value import written


class Sieve:
    """One filter, compiled. One whose pattern cannot be compiled rejects every record."""

    def __init__(self, written_filter: Filter, data_def: DataDef) -> None:
        self._filter = written_filter
        self._join = next((field.join for field in data_def.fields if field.name == written_filter.field), "|")
        self._fault = ""
        self._pattern: Pattern | None = None
        try:
            self._pattern = Pattern(written_filter.pattern)
        except ValueError as error:
            self._fault = str(error)

    def drops(self, row: Mapping[str, Any], patience: Patience) -> bool:
        """Whether the field's written text matches in full. Raises `Unfit`."""
        if self._pattern is None:
            raise Unfit(self._filter.field, self._filter.place, f"filter: {self._fault}")
        try:
            return self._pattern.fits(written(row.get(self._filter.field), self._join), patience)
        except TooSlow as slow:
            raise Unfit(self._filter.field, self._filter.place, f"filter: {slow}") from None
