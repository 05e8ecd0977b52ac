"""The bytes of an HTML page, with the counts by which guards judge it before it is parsed."""

import re
from functools import cached_property

FORMATTING_NAMES = rb"(?:[bius]|em|tt|big|code|font|nobr|small|strike|strong)"
"""A pattern of the tags that the parser reopens; `a` is one of them, but is closed by the next one."""
_FORMATTING_WITH_ATTRIBUTES = re.compile(rb"<[bceinstuf](?:[\s/]|(?:m|t|ig|ode|ont|obr|mall|trike|trong)[\s/])")
"""Those with attributes, and names that do not exist: in half the time, as most tags begin with other letters."""

FORBIDDING = (b"nofollow", b"noindex", b"none")
BASE = b"<base"


_KEPT_BYTES = 1_000_000
_SLICE_BYTES = 256 * 1024


class Markup:
    """HTML in lower case. Each count is taken once, for all guards."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._kept = text.lower() if len(text) <= _KEPT_BYTES else None
        self._mentions: dict[bytes, bool] = {}

    @property
    def lower(self) -> bytes:
        """The markup in lower case; of a large page a new copy each time, which must not stay beside its tree."""
        return self._text.lower() if self._kept is None else self._kept

    def mentions(self, word: bytes) -> bool:
        """Whether a word, given in lower case, occurs. Makes no copy of a large page."""
        if self._kept is not None:
            return word in self._kept
        if word not in self._mentions:
            text, size = self._text, _SLICE_BYTES + len(word)
            self._mentions[word] = any(word in text[at : at + size].lower() for at in range(0, len(text), _SLICE_BYTES))
        return self._mentions[word]

    def forget(self) -> bool:
        """Drop the text of a large page, but for what is still asked; whether that was possible."""
        if any(map(self.mentions, (BASE, *FORBIDDING))) and len(self.head) > _KEPT_BYTES:
            return False
        self._text = b""
        return True

    @cached_property
    def tags(self) -> int:
        """Start tags, end tags, comments: every `<`. About 0.4 µs a KB."""
        return self._text.count(b"<")

    @cached_property
    def start_tags(self) -> int:
        """Tags but for end tags. About 0.6 µs a KB."""
        return self.tags - self._text.count(b"</")

    @cached_property
    def formatting_tags(self) -> int:
        """Formatting tags with attributes, which are reopened without limit. About 30 ns a tag."""
        return len(_FORMATTING_WITH_ATTRIBUTES.findall(self.lower))

    def mentions_robots(self, agent: bytes) -> bool:
        """Whether a `<meta>` of the head may forbid something to robots, or to the one with that product token."""
        if self._kept is None and not any(map(self.mentions, FORBIDDING)):  # else the head is quicker to search
            return False
        head = self.head
        return (b"robots" in head or (bool(agent) and agent in head)) and any(word in head for word in FORBIDDING)

    @cached_property
    def head(self) -> bytes:
        """The markup up to the end of the head; all of it where that is not written."""
        lower = self.lower
        end = lower.find(b"</head")
        return lower if end < 0 else lower[:end]
