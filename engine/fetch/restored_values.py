"""Finds values in a part of a URL that may be percent-encoded, once or twice."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_BYTE = re.compile(rb"%([0-9A-Fa-f]{2})")
_LEVELS = 2
"""How often a value may be encoded: twice in a URL that stands in the query of another one."""


class _Text(NamedTuple):
    """A decoded text, and for each of its bytes where that begins in the URL; last, where the URL ends."""

    data: bytes
    starts: list[int]


def restore_values(text: str, values: Mapping[str, str]) -> str:
    """The part of a URL with `%{name}` in the place of each value: the longest one first, which may hold another."""
    if not values:
        return text
    written = text.encode("utf-8", "surrogateescape")
    decoded = _Text(written, list(range(len(written) + 1)))
    spans: list[tuple[int, int, str]] = []
    for level in range(_LEVELS + 1):
        for name, value in values.items():
            spans += [(start, end, name) for start, end in _find(value, decoded)]
        if level < _LEVELS:
            decoded = _decode(decoded)
    parts, at = [], 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= at:
            parts.append(written[at:start] + b"%{" + name.encode() + b"}")
            at = end
    return b"".join([*parts, written[at:]]).decode("utf-8", "surrogateescape")


def _find(value: str, text: _Text) -> list[tuple[int, int]]:
    """Where the value stands; a space may be written as `+`."""
    sought, data = (part.replace(b"+", b" ") for part in (value.encode("utf-8", "surrogateescape"), text.data))
    found, at = [], data.find(sought)
    while at >= 0:
        found.append((text.starts[at], text.starts[at + len(sought)]))
        at = data.find(sought, at + len(sought))
    return found


def _decode(text: _Text) -> _Text:
    pieces, starts, at = [], list[int](), 0
    for match in _BYTE.finditer(text.data):
        pieces += [text.data[at : match.start()], bytes([int(match[1], 16)])]
        starts += [*text.starts[at : match.start()], text.starts[match.start()]]
        at = match.end()
    return _Text(b"".join([*pieces, text.data[at:]]), starts + text.starts[at:])
