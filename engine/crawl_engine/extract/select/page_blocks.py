"""Digests of pages, to find repeats: of blocks in a series, of the text, of all that a page shows."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from selectolax.lexbor import LexborNode
from xxhash import xxh3_64

from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import TimeBudget
from crawl_engine.extract.select.node_value import JsonValue, read_node, read_text
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.model.link import PageBlocks
from crawl_engine.model.record import ExtractedLink, to_text

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

_PARTS_AT_ONCE = 1_000
_MAX_MISSES = 20
_UNSEEN = re.compile(rb"<(script|style)")


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


def read_key(values: Sequence[Any], links: int) -> str:
    """What pages with the same digest and links have in common, without their text."""
    return f"{xxh3_64(_json_bytes(values)).hexdigest()}-{links}"


def read_digest(page: Page, values: Sequence[Any]) -> int:
    """A positive number for the text of a page, without scripts and styles, and the values of its records."""
    body = page.tree.body if page.tree is not None else None
    text = page.utf8 if body is None else "".join(_shown_texts(page, body.text_lexbor())).encode("utf-8", "replace")
    digest = xxh3_64(text)
    digest.update(_json_bytes(values))
    return (digest.intdigest() >> 1) or 1


def read_form_page(page: Page) -> str:
    """A digest of what a page shows, by which it is recognized in the answer to its form, whatever the defs are."""
    body = page.tree.body if page.tree is not None else None
    return f"{read_digest(page, [] if body is None else _addresses_of(body)):x}"


def _shown_texts(page: Page, text: str) -> Iterator[str]:
    """The pieces of a page's text between those of its scripts and styles, in time that grows with the page alone."""
    done = misses = 0
    for unseen in _unseen_texts(page):
        at = text.find(unseen, done)
        if at >= 0:
            yield text[done:at]
            done = at + len(unseen)
        elif (misses := misses + 1) > _MAX_MISSES:  # a parser may have moved them
            break
    yield text[done:]


def _unseen_texts(page: Page) -> Iterator[str]:
    """The texts of scripts and styles of the body, in the order of the page."""
    lower = page.markup.lower
    end = max(lower.find(b"</head"), lower.find(b"<body"), 0)
    while match := _UNSEEN.search(lower, end):
        start = lower.find(b">", match.end()) + 1
        end = lower.find(b"</" + match[1], start)
        if not start or end < 0:
            return
        if end > start:
            yield page.utf8[start:end].decode("utf-8", "replace")


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
