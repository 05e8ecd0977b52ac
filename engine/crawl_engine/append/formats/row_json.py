"""Decodes stored rows: JSON objects whose numbers keep their digits."""

import json
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

from crawl_engine.late_regex import late_regex

_SPACES = " \t\n\r"
_SPACE = late_regex(rf"[{_SPACES}]*")
_INTEGER_DIGITS = 18
"""Every integer with this many digits fits in 64 bits."""


_text_decoder = json.JSONDecoder(parse_float=str, parse_int=str, strict=False)


class NumberLiteral(str):
    """A JSON number as it was written."""

    __slots__ = ()

    def to_value(self) -> int | float | str:
        """The number if that keeps every digit, else the digits as text."""
        if self.lstrip("-").isdigit():
            return int(self) if len(self) <= _INTEGER_DIGITS else str(self)
        number = float(self)
        return number if repr(number) == self else str(self)


_number_decoder = json.JSONDecoder(parse_float=NumberLiteral, parse_int=NumberLiteral, strict=False)


def decode_as_text(row: str) -> dict[str, Any]:
    """The fields of a row; numbers are plain text. Faster than `decode_values`."""
    fields: dict[str, Any] = _text_decoder.raw_decode(row)[0]
    return fields


def decode_values(row: str) -> dict[str, Any]:
    """The fields of a row; numbers are `NumberLiteral`."""
    fields: dict[str, Any] = _number_decoder.raw_decode(row)[0]
    return fields


def split_fields(row: str) -> dict[str, str]:
    """The JSON text of each field of a row, exactly as stored."""
    fields: dict[str, str] = {}
    at = _skip_space(row, _skip_space(row, 0) + 1)
    while row[at] != "}":
        key, at = _text_decoder.raw_decode(row, at)
        start = _skip_space(row, _skip_space(row, at) + 1)
        _, at = _text_decoder.raw_decode(row, start)
        fields[key] = row[start:at]
        at = _skip_space(row, at)
        if row[at] == ",":
            at = _skip_space(row, at + 1)
    return fields


def join_fields(fields: Mapping[str, str]) -> str:
    """The reverse of `split_fields`."""
    return "{" + ",".join([f"{encode_basestring(name)}:{value}" for name, value in fields.items()]) + "}"


def encode_value(value: Any) -> str:
    """A decoded value as JSON text: the numbers of `decode_values` keep their digits."""
    if isinstance(value, NumberLiteral):
        return str(value)
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, list):
        return "[" + ",".join([encode_value(item) for item in value]) + "]"
    if isinstance(value, dict):
        return join_fields({name: encode_value(item) for name, item in value.items()})
    return json.dumps(value)


def select_fields(row: str, names: Iterable[str]) -> str:
    """A row with these fields alone, in this order."""
    fields = split_fields(row)
    return join_fields({name: fields[name] for name in names if name in fields})


def arrange_fields(row: str, columns: tuple[str, ...]) -> str:
    """A row with the fields of these columns in their order, in one line; its text stays where it has that order."""
    names = tuple(decode_as_text(row))
    has_order = names == columns or is_subsequence(names, columns)
    return to_one_line(row if has_order else select_fields(row, columns))


def encodable(text: str) -> str:
    """The text with `?` for each lone surrogate, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_nested(value: Any) -> bool:
    """Whether a value is written as JSON text: an object, or a list that holds objects or lists."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict | list) for item in value))


def to_one_line(row: str) -> str:
    """The same JSON without line breaks, which can only be between tokens."""
    return row.replace("\n", " ").replace("\r", " ") if "\n" in row or "\r" in row else row


def is_subsequence(names: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether `names` is a part of `columns`, in the same order."""
    rest = iter(columns)
    return all(name in rest for name in names)


def _skip_space(row: str, at: int) -> int:
    if row[at] not in _SPACES:
        return at
    space = _SPACE.match(row, at)
    assert space is not None
    return space.end()
