"""Decides which pages are so small and plain that they need no extraction process."""

from collections.abc import Sequence

from engine.extract.cost import Cost, Searcher
from engine.extract.nesting_guard import may_reopen, may_search_long
from engine.extract.page import Page
from engine.fetch.decode import is_pdf, needs_detection

MAX_INLINE_BYTES = 64 * 1024
"""Size up to which a page may be extracted outside an extraction process, such as on the fetch loop."""
MAX_INLINE_DEPTH = 200
_MAX_INLINE_XML_DEPTH = 12
"""A CSS selector with combinators may test all ancestors of each element: 0.1 s here. Feeds have three levels."""
_XML_FACTOR = 4
"""An element of XML counts as so many: a test of its local name takes ten times as long."""
INLINE_SECONDS = 0.03
"""Time after which a page is handed to an extraction process, if it was begun outside of one."""
_MAX_INLINE_TAGS = {Cost.LINEAR: MAX_INLINE_BYTES, Cost.SQUARE: 2_000, Cost.CUBE: 100}
"""Tags up to which selectors of that cost may be evaluated outside an extraction process."""
_MAX_INLINE_COSTLY_BYTES = 8 * 1024
"""For selectors of the highest cost, of which some depend on the text."""
_MAX_INLINE_ATTRIBUTES = 2_000
"""Parsers take the square of the number of attributes of a tag."""
_MAX_INLINE_TAG_BYTES = 4_096
_MAX_INLINE_NAMES = 8_000
"""Of attributes without a value in one tag: 0.1 s."""
_NAME_ENDS = b" \t\n\r\f/"
_MAX_INLINE_REOPENED = 100_000
"""Elements that the parser may make by repeating others: each 0.3 µs and 300 bytes."""
_MAX_INLINE_SEARCH_STEPS = 4_000_000
"""Open tags that the parser may look at to find those that a tag closes: each 20 ns."""
_MAX_INLINE_JSON_VALUES = 8_000
"""An expression takes up to 5 µs for each."""
_JSON_SEPARATORS = (b",", b"[", b"{")
_CSV_SEPARATORS = (b",", b";", b"\t", b"|", b"\n")


def may_be_inline(body: bytes, content_type: str) -> bool:
    """Whether a body is small, and quickly decoded; it may be extracted at once if the page also `is_plain`."""
    if len(body) > MAX_INLINE_BYTES or is_pdf(body, content_type):
        return False
    return not needs_detection(body, content_type)


def is_plain(page: Page, body: bytes, extractors: Sequence[Searcher]) -> bool:
    """Whether the page is parsed, and searched by these dataDefs, in bounded time: no storm of attributes, not deep.

    Some counts, about 10 µs; where it has many tags, and a selector whose time depends on the depth, a walk over it.
    """
    cost = max([extractor.cost for extractor in extractors], default=Cost.LINEAR)
    tags = page.markup.tags * (_XML_FACTOR if page.kind == "xml" else 1)
    if cost is not Cost.LINEAR and tags > _MAX_INLINE_TAGS[cost]:
        return False
    if cost is Cost.CUBE and len(body) > _MAX_INLINE_COSTLY_BYTES:
        return False
    if page.kind == "csv":
        return sum(map(body.count, _CSV_SEPARATORS)) <= _MAX_INLINE_JSON_VALUES
    if page.kind in ("json", "ndjson"):
        return _has_few_json_values(body)
    if any(extractor.reads_embedded_json for extractor in extractors) and not _has_few_json_values(body):
        return False
    if len(body) > _MAX_INLINE_ATTRIBUTES and body.count(b"=") > _MAX_INLINE_ATTRIBUTES:
        return False
    if _may_have_long_tag(body) or _may_have_many_names(body):
        return False
    if page.markup.tags <= MAX_INLINE_DEPTH:
        return True
    if page.kind == "html" and (
        may_reopen(page.markup, _MAX_INLINE_REOPENED) or may_search_long(page.markup, _MAX_INLINE_SEARCH_STEPS)
    ):
        return False
    if page.kind == "xml":
        return not _is_deep_xml(page)
    if all(extractor.is_flat for extractor in extractors):
        return True
    return page.shape is None or not page.shape.is_deeper(MAX_INLINE_DEPTH)


def _is_deep_xml(page: Page) -> bool:
    """Whether the time of a selector would be a matter of depth. Raises PageTooCostly."""
    from engine.extract.xpath import is_deeper  # lxml takes 20 ms, which crawls of HTML need not pay

    return page.element is not None and is_deeper(page.element, _MAX_INLINE_XML_DEPTH)


def _has_few_json_values(body: bytes) -> bool:
    """Whether JSON in the body has at most as many values as may be searched outside an extraction process."""
    return sum(map(body.count, _JSON_SEPARATORS)) <= _MAX_INLINE_JSON_VALUES


def _may_have_many_names(body: bytes) -> bool:
    """Whether a tag may have more names of attributes than the limit; words of the text included. About 2 µs a KB.

    A `>` in a quoted value does not end a tag, so a tag may be long without being found by `_may_have_long_tag`.
    """
    if len(body) <= 2 * _MAX_INLINE_NAMES:
        return False
    return len(body) - len(body.translate(None, _NAME_ENDS)) > _MAX_INLINE_NAMES


def _may_have_long_tag(body: bytes) -> bool:
    """Whether a tag may have more bytes than twice the limit, text between tags included; no `>` in its values."""
    size = _MAX_INLINE_TAG_BYTES
    return any(body.find(b">", start, start + size) < 0 for start in range(0, len(body) - size + 1, size))
