"""Checks the rows that plugin code returns against the fields of their dataDef, and completes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import StepCheck, reader_of
from crawl_engine.extract.fields.step_values import list_of, objects_of
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.field_type import find_field_type
from crawl_engine.model.record import RecordCounts, Rejection, to_text
from crawl_engine.node.extraction.steps.context import PageContext


class RowInvalid(Exception):
    """A row does not fit its dataDef; the message says which row, and why."""


class RowChecker:
    """The checks of one dataDef."""

    def __init__(self, data_def: DataDef) -> None:
        self._data_def = data_def
        self._fields = {field.name: _checker_for(field) for field in data_def.fields}
        self._from_step = tuple(field for field in data_def.fields if field.from_step)

    def check(self, rows: Any, context: PageContext) -> list[dict[str, Any]]:
        """The rows of a page with all fields, in written order. Raises RowInvalid."""
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
            raise RowInvalid(f"it must give a list of rows, not {type(rows).__name__}")
        return [self._check_row(number, row, context) for number, row in enumerate(rows, 1)]

    def complete(self, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Rejection], RecordCounts]:
        """Add defaults to fields that steps fill; rows that lack a required field are rejected."""
        if not self._from_step:
            return rows, [], RecordCounts(len(rows))
        kept, rejected = [], []
        missing = dict.fromkeys((field.name for field in self._from_step), 0)
        for row in rows:
            problem = None
            for field in self._from_step:
                if row[field.name] is None:
                    missing[field.name] += 1
                    row[field.name] = _default_of(field)
                    if row[field.name] is None and field.required and problem is None:
                        problem = Rejection(
                            data_def=self._data_def.name, field=field.name, place=str(field.place),
                            reason="the field is required, and no step filled it", code="missing",
                        )  # fmt: skip
            if problem is None:
                kept.append(row)
            else:
                rejected.append(problem)
        return kept, rejected, RecordCounts(len(rows), len(rejected), tuple(missing.items()))

    def _check_row(self, number: int, row: Any, context: PageContext) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise RowInvalid(f"row {number} must be an object by field, not {type(row).__name__}")
        extra = next((key for key in row if key not in self._fields), None)
        if extra is not None:
            name = quote_text(str(extra))
            text = f"row {number}: {name} is not a field of {self._data_def.name}; declare it with `fromStep: true`"
            raise RowInvalid(text)
        checked = {}
        for name, check in self._fields.items():
            value = row.get(name)
            try:
                checked[name] = None if value is None else check(value, context)
            except ValueError as error:
                raise RowInvalid(f"row {number}, field {name}: {error}") from None
        return checked


def _checker_for(field: Field) -> StepCheck:
    check = _checker_of_type(field)
    if field.is_list and not field.fields:
        return lambda value, context: [None if item is None else check(item, context) for item in list_of(value)]
    return check


def _checker_of_type(field: Field) -> StepCheck:
    if field.fields:
        return lambda value, _page: objects_of(value)
    return reader_of(field.type).step_check(field)


def _default_of(field: Field) -> Any:
    if not field.has_default or field.default is None:
        return None
    if find_field_type(field.type).stored in ("json", "rows") and not isinstance(field.default, str):
        return field.default
    return reader_of(field.type).default_converter(field)(to_text(field.default).strip(), "")
