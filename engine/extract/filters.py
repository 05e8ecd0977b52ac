"""Drops records by the written text of a field. Knows rows and patterns; no pages."""

from collections.abc import Mapping
from typing import Any

from engine.extract.fields import RecordRejected
from engine.extract.patterns import PatternTimeout, TimeBudget, TimedPattern
from engine.model.definition import DataDef, FilterRule
from engine.model.text_value import to_text


class RecordFilter:
    """One filter, compiled. One whose pattern cannot be compiled rejects every record."""

    def __init__(self, written_filter: FilterRule, data_def: DataDef) -> None:
        self._filter = written_filter
        self._join = next((field.join for field in data_def.fields if field.name == written_filter.field), "|")
        self._compile_error = ""
        self._pattern: TimedPattern | None = None
        try:
            self._pattern = TimedPattern(written_filter.pattern)
        except ValueError as error:
            self._compile_error = str(error)

    def drops(self, row: Mapping[str, Any], patience: TimeBudget) -> bool:
        """Whether the field's written text matches in full. Raises `Unfit`."""
        if self._pattern is None:
            raise RecordRejected(self._filter.field, self._filter.place, f"filter: {self._compile_error}")
        try:
            return self._pattern.fullmatch(to_text(row.get(self._filter.field), self._join), patience)
        except PatternTimeout as slow:
            raise RecordRejected(self._filter.field, self._filter.place, f"filter: {slow}") from None
