"""Checks the values of a message from a process that is not trusted. Each raises ValueError or TypeError."""

from collections.abc import Sequence
from typing import Any

MAX_INTEGER = 2**63 - 1


def count_of(value: Any) -> int:
    """A number of things."""
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise ValueError("not a count")
    return value


def integer_of(value: Any) -> int:
    """A number that SQLite can store."""
    if type(value) is not int or not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise ValueError("not an integer")
    return value


def text_of(value: Any) -> str:
    """A text."""
    if type(value) is not str:
        raise TypeError("not a text")
    return value


def one_of(value: Any, allowed: Sequence[Any]) -> Any:
    """One of the allowed words."""
    if value not in allowed:
        raise ValueError("not a known word")
    return value
