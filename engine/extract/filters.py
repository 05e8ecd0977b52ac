"""Drops records by the text of a field."""

from collections.abc import Mapping
from typing import Any

from engine.extract.fields import RecordRejected
from engine.extract.patterns import PatternTimeout, TimeBudget, TimedPattern
from engine.model.definition import DataDef, FilterRule
from engine.model.record import to_text


class RecordFilter:
    """A compiled filter. If its pattern does not compile, it rejects every record."""

    def __init__(self, rule: FilterRule, data_def: DataDef) -> None:
        self._rule = rule
        self._join = next((field.join for field in data_def.fields if field.name == rule.field), "|")
        self._compile_error = ""
        self._pattern: TimedPattern | None = None
        try:
            self._pattern = TimedPattern(rule.pattern)
        except ValueError as error:
            self._compile_error = str(error)

    def drops(self, row: Mapping[str, Any], budget: TimeBudget) -> bool:
        """Whether the whole text of the field matches. Raises `RecordRejected`."""
        if self._pattern is None:
            raise RecordRejected(self._rule.field, self._rule.place, f"filter: {self._compile_error}")
        try:
            return self._pattern.fullmatch(to_text(row.get(self._rule.field), self._join), budget)
        except PatternTimeout as error:
            raise RecordRejected(self._rule.field, self._rule.place, f"filter: {error}") from None
