"""A value as text: what a cell of a CSV file shows, and what filters match. Knows no output and no page."""

import json
from decimal import Decimal
from typing import Any


def written(value: Any, join: str = "|") -> str:
    """The written text of a field's value.

    None is empty, booleans are `true` and `false`, a Decimal shows its digits without an exponent, lists of
    plain values are joined by `join`, objects and lists that hold any become compact JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple) for item in value):
            return _json(value)
        return join.join([written(item) for item in value])
    if isinstance(value, dict):
        return _json(value)
    return _plain(value)


def _plain(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _json(value: Any) -> str:
    # The standard encoder cannot write a Decimal as a number with its digits.
    if isinstance(value, dict):
        return "{" + ",".join([f"{_text(str(key))}:{_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_json(item) for item in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | Decimal):
        return _plain(value)
    return _text(str(value))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
