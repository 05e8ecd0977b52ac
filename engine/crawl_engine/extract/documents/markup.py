"""The bytes of an HTML page, with counts and searches that need no tree."""

import re
from collections.abc import Iterator, Sequence

from crawl_engine.extract.documents.templates import SHADOW
from crawl_engine.rare_words import RareWords

_FORMATTING = re.compile(rb"<[bceinstuf](?:[\s/]|(?:m|t|ig|ode|ont|obr|mall|trike|trong)[\s/])")
"""Tags with attributes that the parser repeats until they are closed, such as `<b id=1>`. A next `<a>` closes the last
one."""

_FORBIDDING = re.compile(rb"(?<![a-z</-])no[a-z]")
"""Of a directive for robots that forbids something, such as `noindex`; all begin alike."""
_HEAD_END = re.compile(rb"</head", re.IGNORECASE)
NOFOLLOW = b"nofollow"
SPANS = (b"rowspan", b"colspan")
BASE = b"<base"
ROOTS = (b"<html", b"<body")
"""Elements that get the attributes of all their tags."""
WORDS = RareWords(NOFOLLOW, *SPANS, SHADOW, BASE, *ROOTS)
_KEPT_BYTES = 1_000_000
_SLICE_BYTES = 256 * 1024
_START_BYTES = 4_096


class Markup:
    """The bytes of one page. `tags` and `head` are computed once."""

    __slots__ = ("_head", "_kept", "_tags", "_text", "_words")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._kept = text.lower() if len(text) <= _KEPT_BYTES else None
        self._words: Sequence[bytes] | None = None
        self._tags: int | None = None
        self._head: bytes | None = None

    @property
    def lower(self) -> bytes:
        """The markup in lower case. Of a large page a new copy each time, so that none stays beside its tree."""
        return self._text.lower() if self._kept is None else self._kept

    def mentions(self, word: bytes) -> bool:
        """Whether a word of `WORDS` occurs. Makes no copy of a large page."""
        return word in self.words

    @property
    def words(self) -> Sequence[bytes]:
        """Those of `WORDS` that occur, as often as they do; of a large page, each once."""
        words = self._words
        if words is None and self._kept is not None:
            words = WORDS.find(self._kept)
        elif words is None:
            words = [*set[bytes]().union(*map(WORDS.find, self._lower_pieces()))]
        self._words = words
        return words

    def _lower_pieces(self) -> Iterator[bytes]:
        """A large page in pieces that overlap by a word."""
        overlap = max(map(len, WORDS.words))
        for at in range(0, len(self._text), _SLICE_BYTES):
            yield self._text[at : at + _SLICE_BYTES + overlap].lower()

    def forget(self) -> bool:
        """Drop the text of a large page, except its head if needed; False if the head is as large."""
        if len(self.head) > _KEPT_BYTES:
            if b"<meta" in self.head and _FORBIDDING.search(self.head):
                return False
            self._head = b""  # it forbids nothing
        self.mentions(NOFOLLOW)  # what it mentions is found before it goes
        self._text = b""
        return True

    @property
    def tags(self) -> int:
        """Every `<`: start tags, end tags, comments."""
        if self._tags is None:
            self._tags = self._text.count(b"<")
        return self._tags

    @property
    def start_tags(self) -> int:
        return self.tags - self._text.count(b"</")

    @property
    def formatting_tags(self) -> int:
        """Formatting tags with attributes, which the parser repeats without limit."""
        return len(_FORMATTING.findall(self.lower))

    def mentions_robots(self, agent: bytes) -> bool:
        """Whether a `<meta>` of the head may forbid something to all robots, or to this product token."""
        head = self.head
        return (b"robots" in head or (bool(agent) and agent in head)) and bool(_FORBIDDING.search(head))

    @property
    def mentions_refresh(self) -> bool:
        """Whether the head, or the beginning of a page, may lead to another page. A page that does so is small."""
        if self._kept is None:
            return b"refresh" in self._text[:_START_BYTES].lower()
        return self._kept.find(b"refresh", 0, max(len(self.head), _START_BYTES)) >= 0

    @property
    def head(self) -> bytes:
        """The markup up to the end of the head, or all of it if that end is missing."""
        if self._head is None:
            if self._kept is None:  # no copy of a large page
                end = _HEAD_END.search(self._text)
                self._head = self._text[: end.start() if end else None].lower()
            else:
                at = self._kept.find(b"</head")
                self._head = self._kept if at < 0 else self._kept[:at]
        return self._head
