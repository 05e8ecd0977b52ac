r"""Braces in a locator's URL: `{1..50}`, `{01..12}`, `{a,b}` stand for many URLs. Knows texts only.

`\{`, `\}` and, between braces, `\,` are literal. `%{…}` is a variable, not a brace, and stays as it is.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from engine.errors import UsageError

MAX_URLS = 100_000

_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})")
_PART = re.compile(r"%?%\{[^{}]*\}|%%\{|\\[{}]|\{((?:\\[{},]|[^{}\\]|\\(?![{},]))*)\}|\{", re.DOTALL)


def expand(pattern: str) -> Iterator[str]:
    """All URLs of a pattern, the last brace turning fastest, made one at a time.

    Raises UsageError at once where a brace has no meaning, or for more than 100,000 URLs.
    """
    parts = _parts(pattern)
    number = prod(map(len, parts))
    if number > MAX_URLS:
        remedy = "Write fewer, or list the URLs in a file and name it with `from`."
        raise UsageError(f"{pattern!r} stands for {number:,} URLs; at most {MAX_URLS:,} are allowed.", remedy)
    return map("".join, product(*parts))


def count(pattern: str) -> int:
    """How many URLs a pattern stands for, without making them. Raises UsageError where a brace has no meaning."""
    return prod(map(len, _parts(pattern)))


class _Range(Sequence[str]):
    """The numbers of `{first..last}` as texts, padded to `width`."""

    def __init__(self, first: int, last: int, width: int) -> None:
        self._numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
        self._width = width

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self._numbers[index]).zfill(self._width)


def _parts(pattern: str) -> list[Sequence[str]]:
    """The pattern cut into what stays and what varies: a list of alternatives each."""
    parts: list[Sequence[str]] = []
    done = 0
    for found in _PART.finditer(pattern):
        if found.start() > done:
            parts.append((pattern[done : found.start()],))
        done = found.end()
        whole, inside = found.group(), found.group(1)
        if whole.startswith("%"):
            parts.append((whole,))
        elif whole.startswith("\\"):
            parts.append((whole[1],))
        elif inside is None:
            raise UsageError(
                f"{pattern!r} has a brace that is not closed, or braces inside braces.",
                "Write \\{ for a literal brace.",
            )
        else:
            parts.append(_alternatives(pattern, inside))
    parts.append((pattern[done:],))
    return parts


def _alternatives(pattern: str, inside: str) -> Sequence[str]:
    texts = re.split(r"(?<!\\),", inside)
    if len(texts) > 1:
        return tuple(re.sub(r"\\([{},])", r"\1", text) for text in texts)
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        raise UsageError(
            f"'{{{inside}}}' in {pattern!r} is neither a range nor a list.",
            "Write {1..50}, {01..12} or {a,b}, or \\{ for a literal brace.",
        )
    first, last = ends.groups()
    padded = any(re.match(r"-?0[0-9]", end) for end in (first, last))
    return _Range(int(first), int(last), max(len(first), len(last)) if padded else 0)
