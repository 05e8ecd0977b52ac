"""Finds the URLs of files in the JSON of a row, and puts the files in their places. All other text stays as it is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from engine.model.definition import DataDef, Field

FieldPath = tuple[str, ...]
"""The names that lead to a field of the type `file`."""
Place = tuple[str | int, ...]

_decoder = json.JSONDecoder(parse_float=orjson.Fragment, parse_int=orjson.Fragment, strict=False)
"""Numbers stay as they are written, with all their digits."""


def list_file_fields(data_def: DataDef) -> tuple[FieldPath, ...]:
    """The fields of the type `file` of a dataDef, nested ones included."""
    return tuple(_iter_file_fields(data_def.fields, ()))


def find_urls(row: str, paths: Sequence[FieldPath]) -> list[tuple[Place, str]]:
    """The URLs of files in a row, with their places, in order."""
    value = _decoder.decode(row)
    return [found for path in paths for found in _iter_urls(value, path, ())]


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


def _iter_urls(value: Any, path: FieldPath, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_urls(item, path, (*place, index))
    elif path and isinstance(value, dict):
        yield from _iter_urls(value.get(path[0]), path[1:], (*place, path[0]))
    elif not path and isinstance(value, str):
        yield place, value
