"""Repairs malformed XML: named references, and prefixes without a namespace.

After the first error the parser drops every named reference, `&amp;` too. Entities of the document are not expanded.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from html.entities import html5

from crawl_engine.late_regex import late_regex

_REFERENCE = late_regex(
    rb"<!\[CDATA\[(?:.*?\]\]>|.*)|<!--(?:.*?-->|.*)|<\?(?:.*?\?>|.*)|&(?:#(?:[0-9]+|x[0-9a-fA-F]+);|([A-Za-z][A-Za-z0-9]{0,31});)?",
    re.DOTALL,
)
"""A reference by number or name, or a bare `&`. Sections without references match too, and are skipped."""
_SURROGATE = late_regex(
    rb"&#(?:x0*d[89a-f][0-9a-f]{2}|0*(?:5529[6-9]|55[3-9]\d\d|56\d{3}|57[0-2]\d\d|573[0-3]\d|5734[0-3]));?",
    re.IGNORECASE,
)
_MAX_REFERENCES = 1_000_000
"""More would take too much memory while they are resolved."""
_DECLARATION = b"<!ENTITY"
_PREFIX = late_regex(r"Namespace prefix ([A-Za-z_][\w.-]*) ", re.ASCII)
_MAX_PREFIXES = 50


def replace_surrogates(markup: bytes) -> bytes:
    """The markup without references to surrogates: lxml keeps them when it recovers, and then cannot read the text."""
    return _SURROGATE.sub(b"\xef\xbf\xbd", markup) if b"&#" in markup else markup


def may_drop_references(markup: bytes) -> bool:
    """Whether a document declares entities: those of HTML are then resolved, the others dropped."""
    return _DECLARATION in markup


def resolve_references(markup: bytes) -> bytes:
    """The markup with HTML's references by name replaced by numbers; the same object if it has no reference."""
    if not 0 < markup.count(b"&") <= _MAX_REFERENCES:
        return markup
    has_others = may_drop_references(markup)

    def resolve(match: re.Match[bytes]) -> bytes:
        written, name = match[0], match[1]
        if name is None:
            return b"&#38;" if written == b"&" else written
        return _by_number(name, keep=has_others)

    return _REFERENCE.sub(resolve, markup)


@lru_cache(maxsize=512)
def _by_number(name: bytes, *, keep: bool) -> bytes:
    """References by number for a name of HTML. Another name is kept, or becomes text as written."""
    text = html5.get(f"{name.decode()};")
    if text is not None:
        return "".join([f"&#{ord(character)};" for character in text]).encode()
    return b"&%b;" % name if keep else b"&#38;%b;" % name


def undeclared_prefixes(messages: Sequence[str]) -> list[str]:
    """The prefixes that messages of the parser call undefined."""
    found = map(_PREFIX.match, messages)
    return [*dict.fromkeys([match[1] for match in found if match is not None])][:_MAX_PREFIXES]


def declare_prefixes(markup: bytes, root: str, prefixes: Sequence[str]) -> bytes:
    """The markup with a namespace for each prefix, at its root element of this name."""
    start = b"<" + root.encode()
    for match in re.finditer(rb"<!--.*?-->|" + re.escape(start) + rb"(?=[\s/>])", markup, re.DOTALL):
        if match[0] == start:
            declared = "".join([f' xmlns:{prefix}="undeclared:{prefix}"' for prefix in prefixes]).encode()
            return markup[: match.end()] + declared + markup[match.end() :]
    return markup
