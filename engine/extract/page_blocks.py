"""Tells whether a page of a series is empty, or repeats the one before: by its blocks."""

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
from selectolax.lexbor import LexborNode

from engine.extract.node_value import JsonValue, json_text
from engine.extract.page import Page
from engine.extract.selectors import Scope, Selector
from engine.model.link_request import PageBlocks
from engine.model.record import ExtractedLink

if TYPE_CHECKING:
    from engine.extract.node_value import SelectedNode

_VOLATILE = re.compile(r"""\s(?:value|nonce|style|[\w-]*(?:token|csrf)[\w-]*)="[^"]*\"""", re.IGNORECASE)
"""Attributes that may change with each request: hidden inputs hold tokens. Others tell blocks of one text apart."""


def read_blocks(page: Page, selectors: Sequence[Selector], links: Sequence[ExtractedLink]) -> PageBlocks:
    """The blocks that `selectors` match, and whether there are any; a followed link counts, too."""
    digest = hashlib.blake2b(digest_size=16)
    present = bool(links)
    for selector in selectors:
        for node in selector.each(Scope(page)):
            present = True
            digest.update(_text_of(node))
            digest.update(b"\0")
    if not selectors:
        for link in links:
            digest.update(link.key)
    return PageBlocks(present, digest.hexdigest())


def _text_of(node: "SelectedNode") -> bytes:
    """What a block shows and where it leads, without what may change with each request."""
    if isinstance(node, str):
        return node.encode("utf-8", "replace")
    if isinstance(node, JsonValue):
        return _json_bytes(node.value)
    if isinstance(node, LexborNode):
        markup = node.html or ""
    else:
        from engine.extract.xpath import outer_html

        markup = outer_html(node)
    return _VOLATILE.sub("", markup).encode("utf-8", "replace")


def _json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=float)  # a number that keeps its digits is a float
    except TypeError:  # an integer of more than 64 bits
        return (json_text(value) or "").encode("utf-8", "replace")
