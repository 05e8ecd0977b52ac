"""Checks the rows that plugin code returns against the fields of their dataDef, and completes them."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import converter_for, default_converter_for
from crawl_engine.extract.fields.human_dates import ANY_FORMAT, HumanDates, is_locale_selector
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.record import RecordCounts, Rejection, to_text
from crawl_engine.node.extraction.steps.context import PageContext

Check = Callable[[Any, PageContext], Any]
"""The value of a row for one that plugin code gives; None: a blank text. Raises ValueError."""

_MAX_DEPTH = 50
_INT_RANGE = 2**63


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
                            reason="the field is required, and no step filled it",
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


def _checker_for(field: Field) -> Check:
    check = _checker_of_type(field)
    if field.is_list and not field.fields:
        return lambda value, context: [None if item is None else check(item, context) for item in _as_list(value)]
    return check


def _checker_of_type(field: Field) -> Check:
    if not field.fields:
        match field.type:
            case "date":
                return _date_checker(field)
            case "price":
                return _price_checker(field)
            case "url" | "file":
                convert = converter_for(field)
                return lambda value, context: convert(text, context.base) if (text := _text(value).strip()) else None
    check = _objects if field.fields else _CHECKERS[field.type]
    return lambda value, _context: check(value)


def _date_checker(field: Field) -> Check:
    """A date in ISO 8601, as earlier steps leave it, or in the format of the field."""
    iso, written = converter_for(replace(field, format=None)), converter_for(field)
    locales = tuple([locale for locale in field.locales if not is_locale_selector(locale)])
    dates = cache(partial(HumanDates, locales))  # loads the library at the first text that is not ISO 8601

    def check(value: Any, context: PageContext) -> str | None:
        if isinstance(value, date):
            return value.isoformat()
        text = _text(value).strip()
        if not text:
            return None
        with suppress(ValueError):
            return str(iso(text, ""))
        if field.format == ANY_FORMAT and locales:
            return dates().parse(text, context.fetched_at)
        return str(written(text, ""))

    return check


def _price_checker(field: Field) -> Check:
    convert = converter_for(field)

    def check(value: Any, _context: PageContext) -> Any:
        if isinstance(value, str):
            return convert(text, "") if (text := value.strip()) else None
        if not isinstance(value, Mapping):
            return {"amount": _decimal(value), "currency": None}
        if value.get("amount") is None or not value.keys() <= {"amount", "currency"}:
            raise _unexpected(value, "an object of `amount` and `currency`")
        currency = value.get("currency")
        return {"amount": _decimal(value["amount"]), "currency": None if currency is None else _text(currency)}

    return check


def _default_of(field: Field) -> Any:
    if not field.has_default or field.default is None:
        return None
    if field.type in ("json", "table", "url", "file") and not isinstance(field.default, str):
        return field.default
    return default_converter_for(field)(to_text(field.default).strip(), "")


def _as_list(value: Any) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    raise _unexpected(value, "a list")


def _objects(value: Any) -> Any:
    for item in _as_list(value):
        if not isinstance(item, Mapping):
            raise _unexpected(item, "an object")
    return _json(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _unexpected(value, "a text")


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unexpected(value, "a whole number")
    if not -_INT_RANGE <= value < _INT_RANGE:
        raise ValueError("it does not fit in 64 bits; use `type: decimal`")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _unexpected(value, "a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _unexpected(value, "a decimal, or its text")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError(f"{quote_text(str(value))} is not a number") from None
    if not number.is_finite() or abs(number.adjusted()) > 1_000:
        raise ValueError(f"{quote_text(str(value))} is not a number of at most 1,000 digits")
    return number


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _unexpected(value, "true or false")


def _json(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it nests deeper than {_MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        return _decimal(value) if isinstance(value, Decimal) else _float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_text(key): _json(item, depth + 1) for key, item in value.items()}
    return [_json(item, depth + 1) for item in _as_list(value)]


def _unexpected(value: Any, expected: str) -> ValueError:
    return ValueError(f"it must be {expected}, not {quote_text(str(value))} ({type(value).__name__})")


_CHECKERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _text, "int": _int, "float": _float, "decimal": _decimal, "bool": _bool, "json": _json, "table": _objects,
    "markdown": _text,
}  # fmt: skip
