"""Formats a value as text, for CSV cells and for filters."""

import json
from decimal import Decimal
from typing import Any


def to_text(value: Any, join: str = "|") -> str:
    """The text of a field's value.

    None is empty, booleans are `true` and `false`, a Decimal shows all digits without an exponent. Lists of scalars are
    joined by `join`; objects and nested lists become compact JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple) for item in value):
            return to_json(value)
        return join.join([to_text(item) for item in value])
    if isinstance(value, dict):
        return to_json(value)
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def to_json(value: Any) -> str:
    """Compact JSON. The standard encoder cannot write a Decimal as a number with its digits."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{_json_string(str(key))}:{to_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([to_json(item) for item in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | Decimal):
        return _scalar_text(value)
    return _json_string(str(value))


def _json_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
