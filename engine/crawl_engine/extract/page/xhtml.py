"""Rewrites XHTML as HTML, so that a parser of HTML reads what a browser shows.

In HTML the slash of `<script src="a.js"/>` does not count, and all that follows is its text.
"""

import re
from html import escape

from crawl_engine.late_regex import late_regex

_VOID = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
"""Elements of HTML that have no end tag."""
_ATTRIBUTES = rb"(?:[^<>\"'/]++|/(?!>)|\"[^\"<]*+\"|'[^'<]*+')*+"
_PART = late_regex(
    rb"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:(.*?)\]\]>|.*)"
    rb"|<(script|style)(?=[\s>])" + _ATTRIBUTES + rb">(?:.*?</\2|.*)"
    rb"|<([A-Za-z][\w:.-]*+)(" + _ATTRIBUTES + rb")/>",
    re.DOTALL,
)
"""A comment, CDATA, a script or style sheet with its text, or an element without content."""


def to_html(markup: bytes) -> bytes:
    """The UTF-8 markup with end tags for elements without content, and with CDATA as text; in time linear in it."""
    return _PART.sub(_rewrite, markup) if b"/>" in markup or b"<![CDATA[" in markup else markup


def _rewrite(part: re.Match[bytes]) -> bytes:
    data, _, name, attributes = part.groups()
    if data is not None:
        return escape(data.decode("utf-8", "surrogateescape"), quote=False).encode("utf-8", "surrogateescape")
    if name is None or name.lower() in _VOID:
        return part[0]
    return b"<%b%b></%b>" % (name, attributes.rstrip(), name)
