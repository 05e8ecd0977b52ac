"""The states of a page in a browser, behind its document: each by what the next one lacks.

A list that keeps only what is in view has other rows in each state; a list that grows has all rows in its last one, and
its earlier states cost a few bytes.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import DecodeError, Struct
from msgspec import json as msgspec_json

Part = str | tuple[int, int]
"""A text, or the bytes of the next state from one place to another; places only rise."""
_START = b'\n<script type="application/json" data-states>'
_END = b"</script><!-- states -->"
_TOKEN = re.compile(rb"(?=<)")
_RUN = 8
"""Elements' tags in a row that a state must share with the next one, for them to be found at another place."""


class _WrittenStates(Struct, array_like=True):
    size: int
    """Bytes of the last state, which is the document."""
    differences: list[list[Part]]
    """Of each other state, the first one first."""


class PageStates(Struct, frozen=True):
    """The states of a page before its last one."""

    last: bytes
    differences: Sequence[Sequence[Part]]

    def read_backwards(self) -> Iterator[bytes]:
        """Their documents, the first one last. Stops at one that nobody has written so."""
        state = self.last
        for parts in reversed(self.differences):
            made, at = list[bytes](), 0
            for part in parts:
                if isinstance(part, str):
                    made.append(part.encode("utf-8", "replace"))
                elif at <= part[0] <= part[1]:
                    at = part[1]
                    made.append(state[part[0] : at])
                else:
                    return
            state = b"".join(made)
            yield state


def find_difference(state: bytes, following: bytes) -> list[Part]:
    """How a state is written by the one that followed it."""
    tokens, known = _TOKEN.split(state), _TOKEN.split(following)
    ends = [0]
    for token in known:
        ends.append(ends[-1] + len(token))
    runs: dict[int, list[int]] = {}
    for place in range(len(known) - _RUN + 1):
        runs.setdefault(hash(tuple(known[place : place + _RUN])), []).append(place)
    parts, text = list[Part](), list[bytes]()
    at = place = 0
    while at < len(tokens):
        if place >= len(known) or known[place] != tokens[at]:
            found = runs.get(hash(tuple(tokens[at : at + _RUN])), [])
            index = bisect_left(found, place)
            if index == len(found) or known[found[index]] != tokens[at]:
                text.append(tokens[at])
                at += 1
                continue
            place = found[index]
        if text:
            parts.append(b"".join(text).decode("utf-8", "replace"))
            text = []
        start = place
        while at < len(tokens) and place < len(known) and known[place] == tokens[at]:
            at, place = at + 1, place + 1
        parts.append((ends[start], ends[place]))
    return [*parts, b"".join(text).decode("utf-8", "replace")] if text else parts


def size_of(difference: Sequence[Part]) -> int:
    """Roughly the bytes that it takes in the document."""
    return sum(len(part) + 4 if isinstance(part, str) else 18 for part in difference)


def write_states(document: bytes, size: int, differences: Sequence[Sequence[Part]]) -> bytes:
    """A document with its states. `size`: of its last state, with which it begins."""
    text = json.dumps([size, differences], ensure_ascii=False, separators=(",", ":"))
    # behind `<!--` and `<script`, a script would not end at its end tag
    safe = text.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return b"".join([document, _START, safe.encode("utf-8", "replace"), _END])


def split_states(document: bytes) -> tuple[bytes, PageStates | None]:
    """A document without its states, and these; None: it has none."""
    if not document.endswith(_END) or (start := document.rfind(_START)) < 0:
        return document, None
    try:
        written = msgspec_json.decode(document[start + len(_START) : -len(_END)], type=_WrittenStates)
    except (DecodeError, RecursionError):
        return document, None
    return document[:start], PageStates(document[: min(written.size, start)], written.differences)
