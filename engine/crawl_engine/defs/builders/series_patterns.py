"""Expands URL and body of a locator with `until`, all but the range of the series."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from crawl_engine.defs import url_patterns
from crawl_engine.defs.builders.bodies import encode_alternative
from crawl_engine.defs.url_patterns import SeriesRange, read_range

_Part = str | SeriesRange
_MAX_MARKS = 5


class SeriesPattern(NamedTuple):
    """One series. Its URL and body are text before and after the number, or one piece without a number."""

    url: tuple[str, ...]
    body: tuple[str, ...]
    """Empty: the request has no body."""
    range: SeriesRange


def find_ranges(url: str, body_pieces: Sequence[str]) -> list[SeriesRange]:
    """The ranges of a URL as written, and of the pieces of a body. Raises UsageError for an invalid brace."""
    braces = [token.text for token in url_patterns.split(url) if token.kind == "brace"]
    ranges = map(read_range, (*braces, *body_pieces[1::2]))
    return [range_ for range_ in ranges if range_ is not None]


def expand_series(
    url: str, body: str | None, body_pieces: Sequence[str], content_type: str | None
) -> Iterator[SeriesPattern]:
    """The series of a locator: other ranges and lists give one each. Its pages follow an open range, else the last.

    Raises UsageError for an invalid brace.
    """
    chosen = choose_range(find_ranges(url, body_pieces))
    assert chosen is not None, "checked when the defs were loaded"
    encode = encode_alternative(content_type)
    url_parts = [
        _alternatives(token.text, chosen, str) if token.kind == "brace" else [token.text]
        for token in url_patterns.split(url)
    ]
    pieces = body_pieces or ((body,) if body is not None else ())
    body_parts = [
        _alternatives(piece, chosen, encode) if position % 2 else [piece] for position, piece in enumerate(pieces)
    ]
    for parts in product(*url_parts, *body_parts):
        yield SeriesPattern(_join(parts[: len(url_parts)]), _join(parts[len(url_parts) :]), chosen)


def split_url(pieces: Sequence[str], resolve: Callable[[str], str | None]) -> tuple[str, ...] | None:
    """The URL that is sent, around its number; None: the number is not part of it. `resolve`: gives the URL to send."""
    from secrets import randbelow

    for _ in range(_MAX_MARKS):
        mark = str(randbelow(9 * 10**17) + 10**17)  # a number that the URL does not hold marks the place
        split = (resolve(mark.join(pieces)) or "").split(mark)
        if len(split) == len(pieces):
            return tuple(split)
    return None


def choose_range(ranges: Sequence[SeriesRange]) -> SeriesRange | None:
    """The open range, else the last one; None for an empty list."""
    return next((range_ for range_ in ranges if range_.last is None), ranges[-1] if ranges else None)


def _alternatives(brace: str, chosen: SeriesRange, encode: Callable[[str], str]) -> Sequence[_Part]:
    own = read_range(brace)
    return (
        [own] if own is not None and own == chosen else [encode(text) for text in url_patterns.list_alternatives(brace)]
    )


def _join(parts: Sequence[_Part]) -> tuple[str, ...]:
    """Adjacent texts are one piece; a range stands between two."""
    if not parts:
        return ()
    pieces = [""]
    for part in parts:
        if isinstance(part, SeriesRange):
            pieces.append("")
        else:
            pieces[-1] += part
    return tuple(pieces)
