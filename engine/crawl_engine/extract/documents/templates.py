"""Templates of HTML: declarative shadow roots belong to the page, the content of others does not.

Parsers differ: Lexbor leaves out the content of both, lxml takes both for elements.
"""

import re
from collections.abc import Iterator

from crawl_engine.late_regex import late_regex

SHADOW = b"shadowrootmode"
"""Occurs in a page with declarative shadow roots."""
_ATTRIBUTES = rb"(?:[^<>\"'/]++|/|\"[^\"]*+\"|'[^']*+')*+"
_PART = late_regex(
    rb"<!--(?:.*?-->|.*)|<(script|style|textarea|title|xmp|iframe)(?=[\s/>])" + _ATTRIBUTES + rb">(?:.*?</\1|.*)"
    rb"|<template(?=[\s/>])(" + _ATTRIBUTES + rb")>|(</template\s*+>)",
    re.DOTALL | re.IGNORECASE,
)
"""A comment, an element whose text is no markup, the start of a template, or its end."""
_SHADOW_ROOT = late_regex(rb"(?<![\w-])shadowrootmode\s*=\s*[\"']?(?:open|closed)\b", re.IGNORECASE)
_TEMPLATE = late_regex(rb"<template(?=[\s/>])", re.IGNORECASE)


def open_shadow_roots(markup: bytes) -> bytes:
    """The markup with the content of each declarative shadow root in its element; in time linear in it."""
    return b"".join(_parts(markup, drops_templates=False))


def without_templates(markup: bytes) -> bytes:
    """As `open_shadow_roots`, and all other templates are empty."""
    return markup if _TEMPLATE.search(markup) is None else b"".join(_parts(markup, drops_templates=True))


def _parts(markup: bytes, *, drops_templates: bool) -> Iterator[bytes]:
    """The kept parts, in order."""
    is_open: list[bool] = []
    """Of each template around the place: whether it is a shadow root of the page."""
    at = inert = 0
    for part in _PART.finditer(markup):
        attributes, end = part[2], part[3]
        if attributes is None and (end is None or not is_open):
            continue
        if not (drops_templates and inert):
            yield markup[at : part.start()]
        at = part.end()
        if attributes is not None:
            is_root = not inert and _SHADOW_ROOT.search(attributes) is not None
            keeps_tag = not is_root and not (drops_templates and inert)
            is_open.append(is_root)
            inert += not is_root
        else:
            is_root = is_open.pop()
            inert -= not is_root
            keeps_tag = not is_root and not (drops_templates and inert)
        if keeps_tag:
            yield part[0]
    if not (drops_templates and inert):
        yield markup[at:]
