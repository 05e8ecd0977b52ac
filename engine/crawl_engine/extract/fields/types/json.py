"""Reads the type `json`: any JSON value, with its digits as written."""

import json
import re
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Converter, NodeReader, StepCheck, TypeReader
from crawl_engine.extract.fields.step_values import json_of
from crawl_engine.extract.select.node_value import JsonValue, read_node, read_verbatim
from crawl_engine.model.definition import Field

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

_MAX_JSON_DEPTH = 200
_PRECISE_NUMBER = re.compile(r"[0-9](?:[0-9]{15}|\.[0-9])")
"""Finds any number with a fraction, or with more digits than 64 bits hold."""


class JsonReader(TypeReader):
    """Reads JSON texts, and values of JSON documents."""

    keeps_markup = True
    keeps_lists = True

    def converter(self, _field: Field) -> Converter:
        """Parses the text."""
        return read_json

    def node_reader(self, field: Field) -> NodeReader:
        """The JSON text of a node."""
        return partial(_read_node_as_json, field)

    def step_check(self, _field: Field) -> StepCheck:
        """Any value that JSON has."""
        return lambda value, _page: json_of(value)


def _read_node_as_json(field: Field, node: "SelectedNode") -> str | None:
    if isinstance(node, JsonValue):
        return node.as_json(field.attribute)
    return (read_node if field.whitespace is None else read_verbatim)(node, field.attribute)


def read_json(text: str, _base: str) -> Any:
    """The value of a JSON text. Raises ValueError."""
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise ValueError(f"{quote_text(text)} is not JSON: {error}") from None
    if text.count("[") + text.count("{") > _MAX_JSON_DEPTH and _exceeds_depth(value, _MAX_JSON_DEPTH):
        raise ValueError(f"the JSON nests deeper than {_MAX_JSON_DEPTH} levels")
    return _with_all_digits(text, value) if _PRECISE_NUMBER.search(text) else value


def _with_all_digits(text: str, value: Any) -> Any:
    """The value of a JSON text with numbers as written; `value` if one has more digits than Python reads."""
    try:
        return json.loads(text, parse_float=_read_fraction)
    except ValueError:
        return value


def _read_fraction(text: str) -> float | Decimal:
    return float(text) if "e" in text or "E" in text else Decimal(text)


def _exceeds_depth(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, list | dict)
            for inner in (item if isinstance(item, list) else item.values())
        ]
        if not level:
            return False
    return any(isinstance(item, list | dict) for item in level)


READER = JsonReader()
