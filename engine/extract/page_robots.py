"""Reads what a page asks of robots: `<meta name="robots">` and the header X-Robots-Tag."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_SEPARATORS = re.compile("[,;]")
_DIRECTIVES_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class PageRobots(NamedTuple):
    """What a page asks of a robot."""

    nofollow: bool = False
    """Not to follow its links."""
    noindex: bool = False
    """Not to list the page: to make no rows of it."""


def read_meta(contents: Iterable[str]) -> PageRobots:
    """The directives of the `content` attributes that address a robot. The strictest counts; others are ignored."""
    words: set[str] = set()
    for content in contents:
        words.update(_SEPARATORS.sub(" ", content.lower()).split())
    return _from_words(words)


def read_headers(values: Iterable[str], agent: str) -> PageRobots:
    """The directives of X-Robots-Tag headers for a product token; those before any `name:` address every robot.

    A name applies to what follows it in its header: `otherbot: noindex, nofollow`.
    """
    words: set[str] = set()
    for value in values:
        addressed = True
        for part in _SEPARATORS.split(value.lower()):
            written, colon, directive = part.partition(":")
            name = written.strip().partition("/")[0]  # without a version
            if colon and name[:1].isdigit():
                continue  # the second part of a date, after a weekday
            if colon and name not in _DIRECTIVES_WITH_VALUE:
                addressed = name in (agent, "robots", "*")
            elif colon:
                continue
            if addressed:
                words.update((directive if colon else part).split())
    return _from_words(words)


def _from_words(words: set[str]) -> PageRobots:
    every = "none" in words
    return PageRobots(nofollow=every or "nofollow" in words, noindex=every or "noindex" in words)
