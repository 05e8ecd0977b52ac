"""Reads the blocks of a page in a series: whether there are any, and a digest to find repeats."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
from selectolax.lexbor import LexborNode

from engine.extract.page.page import Page
from engine.extract.page.patterns import TimeBudget
from engine.extract.select.node_value import JsonValue, read_node, read_text
from engine.extract.select.scope import Scope
from engine.extract.select.selectors import Selector
from engine.model.link import PageBlocks
from engine.model.record import ExtractedLink, to_text

if TYPE_CHECKING:
    from engine.extract.select.node_value import SelectedNode

_PARTS_AT_ONCE = 1_000


def read_blocks(
    page: Page,
    selectors: Sequence[tuple[Selector, bool]],
    values: Sequence[Any],
    links: Sequence[ExtractedLink],
    time_budget: TimeBudget,
) -> PageBlocks:
    """Whether the page has blocks that `selectors` match, or links; and the digest of the blocks. Raises OutOfTime.

    A selector's flag says that `values` holds the values of its records; otherwise `href` and `src` are hashed, too.
    Markup is not hashed: it may hold tokens, or the number of the page in links that lead back to it.
    """
    digest = hashlib.blake2b(digest_size=16)
    present = bool(links)
    for selector, has_values in selectors:
        parts: list[bytes] = []
        for node in selector.each(Scope(page)):
            time_budget.check_patience()
            present = True
            parts.append(_text_of(node))
            if not has_values:
                parts.append(_json_bytes(_addresses_of(node)))
            parts.append(b"\0")
            if len(parts) >= _PARTS_AT_ONCE:
                digest.update(b"".join(parts))
                parts.clear()
        digest.update(b"".join(parts))
    digest.update(_json_bytes(values))
    if not selectors:
        for link in links:
            digest.update(link.key)
    return PageBlocks(present, digest.hexdigest())


def _text_of(node: "SelectedNode") -> bytes:
    if isinstance(node, JsonValue):
        return _json_bytes(node.value)
    text = node if isinstance(node, str) else read_text(node) or ""
    return " ".join(text.split()).encode("utf-8", "replace")


def _addresses_of(node: "SelectedNode") -> list[str | None]:
    if isinstance(node, str | JsonValue):
        return []
    parts = (node, *node.css("[href], [src]")) if isinstance(node, LexborNode) else node.iter()
    return [read_node(part, name) for part in parts for name in ("href", "src")]


def _json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate
        return to_text([value]).encode("utf-8", "replace")
