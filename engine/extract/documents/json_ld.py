"""JSON-LD of a page: its objects by type, and the paths that select in them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from engine.extract.documents.json_expression import JsonExpression
from engine.extract.documents.json_value import MISSING, parse_embedded_json
from engine.late_regex import late_regex

_MEDIA_TYPE = "application/ld+json"
_NAME = r'(?:[A-Za-z_]\w*|"@?[A-Za-z_]\w*")'
_PLAIN_PATH = late_regex(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)


class JsonLdPath:
    """The path of a `jsonld:` selector behind its type, compiled.

    A path of plain names, such as `offers.price`, goes through lists, since JSON-LD writes one value and a list of one
    as the same. Any other is a JMESPath expression as it stands.
    """

    def __init__(self, text: str) -> None:
        """`text`: empty for the object itself. Raises `ValueError`."""
        self._names: tuple[str, ...] | None = None
        self._expression: JsonExpression | None = None
        if not text:
            self._names = ()
        elif _PLAIN_PATH.fullmatch(text):
            self._names = tuple(name.strip('"') for name in text.split("."))
        else:
            self._expression = JsonExpression(text)

    def search(self, value: Any) -> Any:
        """The value of the path in an object, or None."""
        if self._names is None:
            return None if self._expression is None else self._expression.search(value)
        through_list = False
        values = [value]
        for name in self._names:
            through_list = through_list or any(isinstance(one, list) for one in values)
            values = [one[name] for one in _flatten(values) if isinstance(one, dict) and one.get(name) is not None]
        if not values:
            return None
        return list(_flatten(values)) if through_list else values[0]


def read_json_ld(tree: LexborHTMLParser) -> tuple[Mapping[str, Sequence[dict[str, Any]]], int]:
    """The objects of a page by each of their types, in document order, and the number of blocks that are not JSON.

    All blocks count, also lists and `@graph`, but not the values of properties. A type is its last name:
    `https://schema.org/Product` and `schema:Product` are `Product`.
    """
    by_type: dict[str, list[dict[str, Any]]] = {}
    broken = 0
    for node in tree.css("script[type]"):
        if (node.attrs.get("type") or "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
            continue
        value = parse_embedded_json(node.text())
        if value is MISSING:
            broken += 1
            continue
        for one in _objects(value):
            for name in _type_names(one):
                by_type.setdefault(name, []).append(one)
    return by_type, broken


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo.extend(reversed(one))
        elif isinstance(one, dict):
            yield one
            todo.append(one.get("@graph"))


def _type_names(one: dict[str, Any]) -> set[str]:
    types = one.get("@type")
    names = types if isinstance(types, list) else [types]
    return {re.split("[/#:]", name.strip())[-1] for name in names if isinstance(name, str)}


def _flatten(values: list[Any]) -> Iterator[Any]:
    """The values, with lists replaced by their items at any depth."""
    todo = values[::-1]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo.extend(reversed(one))
        else:
            yield one
