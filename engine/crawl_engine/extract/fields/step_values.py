"""Checks the values that steps give to fields: which values of Python each type takes."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from crawl_engine.errors import quote_text

_MAX_DEPTH = 50
_INT_RANGE = 2**63


def list_of(value: Any) -> Sequence[Any]:
    """The items of a list. Raises ValueError."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    raise unexpected(value, "a list")


def objects_of(value: Any) -> Any:
    """A list of objects. Raises ValueError."""
    for item in list_of(value):
        if not isinstance(item, Mapping):
            raise unexpected(item, "an object")
    return json_of(value)


def text_of(value: Any) -> str:
    """A text. Raises ValueError."""
    if isinstance(value, str):
        return value
    raise unexpected(value, "a text")


def int_of(value: Any) -> int:
    """A whole number of 64 bits. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise unexpected(value, "a whole number")
    if not -_INT_RANGE <= value < _INT_RANGE:
        raise ValueError("it does not fit in 64 bits; use `type: decimal`")
    return value


def float_of(value: Any) -> float:
    """A finite number. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise unexpected(value, "a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def decimal_of(value: Any) -> Decimal:
    """A number, or the text of one, with all its digits. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise unexpected(value, "a decimal, or its text")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError(f"{quote_text(str(value))} is not a number") from None
    if not number.is_finite() or abs(number.adjusted()) > 1_000:
        raise ValueError(f"{quote_text(str(value))} is not a number of at most 1,000 digits")
    return number


def bool_of(value: Any) -> bool:
    """True or false. Raises ValueError."""
    if isinstance(value, bool):
        return value
    raise unexpected(value, "true or false")


def json_of(value: Any, depth: int = 0) -> Any:
    """Any value that JSON has; dates become texts. Raises ValueError."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"it nests deeper than {_MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        return decimal_of(value) if isinstance(value, Decimal) else float_of(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {text_of(key): json_of(item, depth + 1) for key, item in value.items()}
    return [json_of(item, depth + 1) for item in list_of(value)]


def unexpected(value: Any, expected: str) -> ValueError:
    """What a value must be, and what it is."""
    return ValueError(f"it must be {expected}, not {quote_text(str(value))} ({type(value).__name__})")
