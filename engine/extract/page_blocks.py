"""Tells whether a page of a series is empty, or repeats the one before: by its blocks."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from engine.extract.node_value import JsonValue, json_text, read_node
from engine.extract.page import Page
from engine.extract.selectors import Scope, Selector
from engine.model.link_request import PageBlocks
from engine.model.record import ExtractedLink

if TYPE_CHECKING:
    from engine.extract.node_value import SelectedNode

_ADDRESSES = ("href", "src")
"""Attributes that tell blocks apart whose text is the same, such as pictures. Others may change with each request."""


def read_blocks(page: Page, selectors: Sequence[Selector], links: Sequence[ExtractedLink]) -> PageBlocks:
    """The blocks that `selectors` match, and whether there are any; a followed link counts, too."""
    digest = hashlib.blake2b(digest_size=16)
    present = bool(links)
    for selector in selectors:
        for node in selector.each(Scope(page)):
            present = True
            for text in _texts(node):
                digest.update(text.encode("utf-8", "replace"))
                digest.update(b"\0")
    if not selectors:
        for link in links:
            digest.update(link.key)
    return PageBlocks(present, digest.hexdigest())


def _texts(node: "SelectedNode") -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, JsonValue):
        yield json_text(node.value) or ""
    elif isinstance(node, LexborNode):
        yield " ".join((read_node(node, "text") or "").split())
        for part in node.css("[href], [src]"):
            attributes = part.attrs
            yield from (attributes.get(name) or "" for name in _ADDRESSES)
    else:
        yield " ".join((read_node(node, "text") or "").split())
        for element in node.iter():
            yield from (str(element.get(name) or "") for name in _ADDRESSES)
