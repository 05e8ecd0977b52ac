"""The types of an output's columns as its settings have them, by the fields of a dataDef."""

from collections.abc import Mapping
from typing import Any

from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import UNIX_FORMATS, find_field_type

ColumnType = Any
"""A name; of a list `{"list": TYPE}` with the type of its items; of an object `[[NAME, TYPE], …]`, in written order.

The names are those of `ColumnKind`; a date is `date` if its format has no time of day, `instant` if it has a time zone,
else `datetime`.
"""
_TIME_OF_DAY = late_regex(r"%[HIMSfpXcZz]")


def column_types(columns: Mapping[str, Field]) -> dict[str, ColumnType]:
    """The types of columns, by the fields in them."""
    return {name: _column_type(field) for name, field in columns.items()}


def _column_type(field: Field) -> ColumnType:
    if field.fields:
        return {"list": [[inner.name, _column_type(inner)] for inner in field.fields]}
    type_ = _type_of_value(field)
    return {"list": type_} if field.is_list else type_


def _type_of_value(field: Field) -> ColumnType:
    type_ = find_field_type(field.type)
    if type_.parts:
        return [[name, find_field_type(part).column] for name, part in type_.parts]
    return _date_type(field.format) if type_.column == "date" else type_.column


def _date_type(date_format: str | None) -> str:
    """A date without a format may have a time of day."""
    directives = (date_format or "").replace("%%", "")
    if "%z" in directives or date_format in UNIX_FORMATS:
        return "instant"
    if "%" not in directives:
        return "datetime"
    return "datetime" if _TIME_OF_DAY.search(directives) else "date"
