"""JSON-LD of a page: its objects by type, and the paths that select in them."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from crawl_engine.extract.documents.json_expression import JsonExpression
from crawl_engine.extract.documents.json_value import MISSING, parse_embedded_json
from crawl_engine.late_regex import late_regex

_MEDIA_TYPE = "application/ld+json"
_NAME = r'(?:[A-Za-z_]\w*|"@?[A-Za-z_]\w*")'
_PLAIN_PATH = late_regex(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)
_MENTIONS_ID = ("@id", "\\u00")
"""What a text with a reference has: `@id`, perhaps escaped."""
_REFERENCE_KEYS = frozenset(("@id", "@type"))
_MAX_VALUES, _MAX_LEVELS = 100_000, 64
"""Of a page with references: a few nodes that all name each other would have no end."""


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


def read_json_ld(tree: LexborHTMLParser) -> tuple[Mapping[str, Sequence[dict[str, Any]]], list[str]]:
    """The objects of a page by each of their types, in document order, and what cannot be read.

    All blocks count, also lists and `@graph`, but not the values of properties. A type is its last name:
    `https://schema.org/Product` and `schema:Product` are `Product`. A value that names a node of the page by its `@id`
    is that node.
    """
    by_type: dict[str, list[dict[str, Any]]] = {}
    faults: dict[str, None] = {}
    blocks: list[Any] = []
    has_references = False
    for node in tree.css("script[type]"):
        if (node.attrs.get("type") or "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
            continue
        text = node.text()
        value = parse_embedded_json(text)
        has_references = has_references or any(mention in text for mention in _MENTIONS_ID)
        if value is MISSING:
            faults["a block of JSON-LD is not JSON and was skipped"] = None
        else:
            blocks.append(value)
    nodes = _find_nodes(blocks) if has_references else {}
    if nodes and not _put_nodes(blocks, nodes):
        faults[f"JSON-LD of more than {_MAX_VALUES:,} values: further references are not followed"] = None
    for one in _objects(blocks):
        for name in _type_names(one):
            by_type.setdefault(name, []).append(one)
    return by_type, [*faults]


def _find_nodes(blocks: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The nodes that other places of the blocks name, each with all that is said of it without contradiction."""
    nodes: dict[str, dict[str, Any]] = {}
    named, again = set[str](), set[str]()
    todo = deque(blocks)
    while todo:
        one = todo.popleft()
        if isinstance(one, list):
            todo.extend(one)
        elif isinstance(one, dict):
            todo.extend(value for value in one.values() if isinstance(value, dict | list))
            id_ = one.get("@id")
            if isinstance(id_, str):
                (again if id_ in named else named).add(id_)
                if not one.keys() <= _REFERENCE_KEYS:
                    known = nodes.setdefault(id_, {})
                    if _agree(one, known):
                        known.update({key: value for key, value in one.items() if key not in known})
    return {id_: nodes[id_] for id_ in again if id_ in nodes}


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two objects may be one node: pages give one `@id` to several variants of a product, too."""
    pairs = [(one[key], other[key]) for key in one.keys() & other.keys() - _REFERENCE_KEYS]
    plain = str | int | float  # what is nested may be written in several forms
    return all(first == second for first, second in pairs if isinstance(first, plain) and isinstance(second, plain))


class _Place(NamedTuple):
    """A value of the blocks: where it stands, and in which nodes."""

    holder: Any
    key: Any
    within: frozenset[str]
    level: int
    is_object: bool
    """Whether it is an object of the page, or a list of them, not the value of a property."""


def _put_nodes(blocks: list[Any], nodes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Put nodes where they are named, level by level, but none into itself; False: there are too many values.

    Each place has a copy of its own.
    """
    todo = deque(_Place(blocks, index, frozenset(), 0, True) for index in range(len(blocks)))
    values = 0
    while todo:
        holder, key, within, level, is_object = todo.popleft()
        value = holder[key]
        parts = [*value] if isinstance(value, list) else dict(value)
        if isinstance(parts, dict):
            id_ = parts.get("@id")
            if isinstance(id_, str) and id_ in nodes and id_ not in within:
                within |= {id_}
                if not is_object and _agree(parts, nodes[id_]):
                    parts = {**nodes[id_], **parts}
        values += 1 + len(parts)
        if values > _MAX_VALUES:
            return False
        holder[key] = parts
        if level < _MAX_LEVELS:
            for name, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
                if isinstance(part, dict | list):
                    inner = is_object and (isinstance(parts, list) or name == "@graph")
                    todo.append(_Place(parts, name, within, level + 1, inner))
    return True


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
