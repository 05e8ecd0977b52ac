r"""Expands braces in URLs and texts: `{1..50}`, `{01..12}`, `{0..80..20}`, `{a,b}`, and open ranges.

An open range, `{1..}` or `{0..*..20}`, stands for its first number: `series_patterns` expands it page by page.

`\{`, `\}` and, between braces, `\,` are literal. `%{…}` is a variable, not a brace, and stays as it is.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Literal, NamedTuple

from crawl_engine.errors import UsageError
from crawl_engine.late_regex import late_regex
from crawl_engine.urls import without_credentials

MAX_URLS = 100_000

_RANGE = late_regex(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18}|\*)?(?:(?<!\.)\.\.(-?[0-9]{1,9}))?")
_PART = late_regex(r"%?%\{[^{}]*\}|%%\{|\\[{}]|\{((?:\\[{},]|[^{}\\]|\\(?![{},]))*)\}|\{", re.DOTALL)


def expand(pattern: str) -> Iterator[str]:
    """Generates all URLs of a pattern; the last brace varies fastest.

    Raises UsageError immediately for an invalid brace, or for more than 100,000 URLs.
    """
    parts = _parts(pattern)
    number = prod(map(len, parts))
    if number > MAX_URLS:
        remedy = "Use a smaller range, or list the URLs in a file and use `from`."
        raise UsageError(
            f"{without_credentials(pattern)!r} expands to {number:,} URLs; at most {MAX_URLS:,} are allowed.", remedy
        )
    return map("".join, product(*parts))


def count(pattern: str) -> int:
    """The number of URLs of a pattern, without expanding it. Raises UsageError for an invalid brace."""
    return prod(map(len, _parts(pattern)))


def count_alternatives(text: str) -> int:
    """The number of texts that a text stands for. Raises UsageError for an invalid brace, without quoting the text."""
    return prod(len(list_alternatives(token.text)) for token in split(text) if token.kind == "brace")


class Token(NamedTuple):
    """A part of a text with braces: literal text, a `%{…}` variable as written, or a brace as written."""

    kind: Literal["text", "variable", "brace"]
    text: str


def split(pattern: str, shown: str | None = None) -> Iterator[Token]:
    """The parts of a text, in order. Raises UsageError for an unclosed brace or nested braces.

    `shown`: how a message names the text, which may hold a secret.
    """
    done = 0
    for match in _PART.finditer(pattern):
        if match.start() > done:
            yield Token("text", pattern[done : match.start()])
        done = match.end()
        whole = match.group()
        if whole.startswith("%"):
            yield Token("variable", whole)
        elif whole.startswith("\\"):
            yield Token("text", whole[1])
        elif match.group(1) is None:
            raise UsageError(
                f"{shown or 'the text'} has an unclosed brace or nested braces.", "Write \\{ for a literal brace."
            )
        else:
            yield Token("brace", whole)
    if done < len(pattern):
        yield Token("text", pattern[done:])


def list_alternatives(brace: str, shown: str | None = None) -> Sequence[str]:
    """What a brace as written stands for. Raises UsageError if it is neither a range nor a list, BadStep for its step.

    `shown`: as for `split`; without it the message quotes nothing of the text.
    """
    inside = brace[1:-1]
    texts = re.split(r"(?<!\\),", inside)
    if len(texts) > 1:
        return tuple(re.sub(r"\\([{},])", r"\1", text) for text in texts)
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        raise UsageError(
            f"{f'{brace!r} in {shown}' if shown else 'a brace in the text'} is neither a range nor a list.",
            "Write {1..50}, {01..12} or {a,b}, or \\{ for a literal brace.",
        )
    if _step_of(ends) < 1:
        raise BadStep(
            f"{f'the step of {brace!r} in {shown}' if shown else 'the step of a range'} is not 1 or more.",
            "Write {0..80..20}, or {80..0..20} to count down.",
        )
    own = _series_range(ends)
    return _Range(own._replace(last=own.first) if own.last is None else own)


class BadStep(UsageError):
    """The step of a range is 0 or negative."""


class SeriesRange(NamedTuple):
    """A range of numbers, padded to `width` digits."""

    first: int
    last: int | None
    """None: it is open."""
    width: int
    step: int
    """The distance of two numbers, whichever of first and last is greater."""


def read_range(brace: str) -> SeriesRange | None:
    """The range of a brace as written; None: it is not a range that can be expanded."""
    ends = _RANGE.fullmatch(brace[1:-1])
    return None if ends is None or _step_of(ends) < 1 else _series_range(ends)


def _step_of(ends: re.Match[str]) -> int:
    return int(ends[3] or 1)


def _series_range(ends: re.Match[str]) -> SeriesRange:
    first, last = ends[1], None if ends[2] == "*" else ends[2]
    written = [first] if last is None else [first, last]
    width = max(map(len, written)) if any(re.match(r"-?0[0-9]", end) for end in written) else 0
    return SeriesRange(int(first), None if last is None else int(last), width, _step_of(ends))


class _Range(Sequence[str]):
    """The numbers of a range with an end as texts."""

    def __init__(self, own: SeriesRange) -> None:
        assert own.last is not None
        sign = 1 if own.first <= own.last else -1
        self._numbers = range(own.first, own.last + sign, sign * own.step)
        self._width = own.width

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self._numbers[index]).zfill(self._width)


def _parts(pattern: str) -> list[Sequence[str]]:
    """The parts of a pattern, each a list of alternatives."""
    shown = repr(without_credentials(pattern))
    return [
        list_alternatives(token.text, shown) if token.kind == "brace" else (token.text,)
        for token in split(pattern, shown)
    ]
