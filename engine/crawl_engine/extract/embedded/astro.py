"""Reads what pages of Astro give their islands: the attribute `props`, each value with its type."""

from collections.abc import Sequence
from typing import Any

from crawl_engine.extract.documents.json_value import MISSING, parse_json

_VALUE, _LIST, _MAP, _SET = 0, 1, 4, 5
_TEXTS = frozenset({3, 6, 7})
"""Dates, large numbers and URLs, which are written as texts."""
_BYTES = frozenset({8, 9, 10})


def read_page_data(texts: Sequence[str]) -> tuple[Any, str]:
    """The properties of all islands, a list; and what is wrong with them. `MISSING` if there is none."""
    islands, fault = [], ""
    for text in texts:
        value = parse_json(text)
        if isinstance(value, dict):
            islands.append({key: _read(item) for key, item in value.items()})
        elif text.strip():
            fault = "has properties that are no JSON object"
    return islands or MISSING, fault


def _read(written: Any) -> Any:
    """A value of `[type, value]`. The parser of JSON has bounded how deep it nests."""
    if not (isinstance(written, list) and len(written) == 2 and type(written[0]) is int):
        return None if written == [_VALUE] else written  # undefined
    kind, value = written
    if kind == _VALUE and isinstance(value, dict):
        return {key: _read(item) for key, item in value.items()}
    if kind in (_LIST, _SET) and isinstance(value, list):
        return [_read(item) for item in value]
    if kind == _MAP and isinstance(value, list):
        pairs = [_read(item) for item in value]
        is_object = all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs)
        return dict(pairs) if is_object else pairs
    return value if kind == _VALUE or kind in _TEXTS or kind in _BYTES else None
