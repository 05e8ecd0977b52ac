"""Finds the URLs of files in the JSON of a row, and puts the files in their places. All other text stays as it is."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from engine.model.definition import DataDef, Field

MAX_FILES = 5_000
"""Files of one page, and of one field of a record: each is a job, with a row of its own that waits for it."""

FieldPath = tuple[str, ...]
"""The names that lead to a field of the type `file`."""
Place = tuple[str | int, ...]

_decoder = json.JSONDecoder(parse_float=orjson.Fragment, parse_int=orjson.Fragment, strict=False)
"""Numbers stay as they are written, with all their digits."""


def list_file_fields(data_def: DataDef) -> tuple[FieldPath, ...]:
    """The fields of the type `file` of a dataDef, nested ones included."""
    return tuple(_iter_file_fields(data_def.fields, ()))


def number_urls(
    row: str, paths: Sequence[FieldPath], number_of: Callable[[str], int | None]
) -> tuple[str, list[tuple[Place, int]]]:
    """The places of the URLs of files in a row, in order, with their numbers; and the row.

    It has null in the place of a URL without a number.
    """
    value = _decoder.decode(row)
    numbers: list[tuple[Place, int]] = []
    is_changed = False
    for path in paths:
        for holder, place, url in _iter_urls(value, path, ()):
            number = number_of(url)
            if number is None:
                holder[place[-1]] = None
                is_changed = True
            else:
                numbers.append((place, number))
    return orjson.dumps(value).decode() if is_changed else row, numbers


def fill_row(row: str, values: Mapping[Place, Any]) -> str:
    """The row with these values in their places."""
    value = _decoder.decode(row)
    for place, new in values.items():
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = new
    return orjson.dumps(value).decode()


def _iter_file_fields(fields: Sequence[Field], path: FieldPath) -> Iterator[FieldPath]:
    for field in fields:
        if field.fields:
            yield from _iter_file_fields(field.fields, (*path, field.name))
        elif field.type == "file":
            yield (*path, field.name)


def _iter_urls(value: Any, path: FieldPath, place: Place) -> Iterator[tuple[Any, Place, str]]:
    """The list or object that holds a URL, the URL's place in the row, and the URL."""
    if isinstance(value, list):
        steps: Iterable[tuple[str | int, Any]] = enumerate(value)
    elif path and isinstance(value, dict):
        steps, path = [(path[0], value.get(path[0]))], path[1:]
    else:
        return
    for step, inner in steps:
        if not path and isinstance(inner, str):
            yield value, (*place, step), inner
        else:
            yield from _iter_urls(inner, path, (*place, step))
