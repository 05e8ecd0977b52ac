"""The bytes of an HTML page, with the counts by which guards judge it before it is parsed."""

import re
from functools import cached_property

FORMATTING_NAMES = rb"(?:[bius]|em|tt|big|code|font|nobr|small|strike|strong)"
"""A pattern of the tags that the parser reopens; `a` is one of them, but is closed by the next one."""
_FORMATTING_WITH_ATTRIBUTES = re.compile(rb"<" + FORMATTING_NAMES + rb"[\s/]")

_FORBIDDING = (b"nofollow", b"noindex", b"none")


class Markup:
    """Lower-case HTML. Each count is taken once, for all guards."""

    def __init__(self, text: bytes) -> None:
        self.lower = text.lower()

    @cached_property
    def tags(self) -> int:
        """Start tags, end tags, comments: every `<`. About 0.4 µs a KB."""
        return self.lower.count(b"<")

    @cached_property
    def start_tags(self) -> int:
        """Tags but for end tags. About 0.6 µs a KB."""
        return self.tags - self.lower.count(b"</")

    @cached_property
    def formatting_tags(self) -> int:
        """Formatting tags with attributes, which are reopened without limit. About 30 ns a tag."""
        return len(_FORMATTING_WITH_ATTRIBUTES.findall(self.lower))

    def mentions_robots(self, agent: bytes) -> bool:
        """Whether a `<meta>` of the head may forbid something to robots, or to the one with that product token."""
        # where the head is not ended, as it need not be, the whole page is searched
        end = self.lower.find(b"</head")
        head = self.lower if end < 0 else self.lower[:end]
        return (b"robots" in head or (bool(agent) and agent in head)) and any(word in head for word in _FORBIDDING)
