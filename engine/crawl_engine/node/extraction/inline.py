"""Extracts pages that are certainly cheap; all others go to an extraction process.

No such page holds the loop for more than 0.5 s: `tests/unit/node/extraction/test_inline.py` has the worst of each kind.
"""

from collections.abc import Iterable, Sequence

from crawl_engine.extract.documents.markup import ROOTS
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.presence import compile_presence
from crawl_engine.http.decode import needs_detection
from crawl_engine.node.extraction.page_extraction import NeedsProcess, apply_data_defs, parse_page
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.node.rules import list_selectors

MAX_INLINE_BYTES = 250_000
MAX_INLINE_SITEMAP_BYTES = 60_000
"""The loop makes a job of each URL at once."""
MAX_TAG_BYTES = 50_000
"""Lexbor takes the square of the attributes of a tag. In a page of twice the bytes, tags may be half as long."""
_MAX_TAGS = 8_000
"""Every `<` of HTML: Lexbor takes the square of the open tags."""
_MAX_VALUES = 6_000
"""Values of JSON and CSV: an expression visits each of them, for each field."""
_MAX_REPEATED = 250_000
"""Formatting tags times all tags: Lexbor repeats `<b id=1>` in each of the blocks that follow it."""
_MAX_LEVELS = 32
"""Levels of a tree that a selector with ancestors may search."""
INLINE_SECONDS = 0.03
"""Time after which the loop hands a page to an extraction process: many blocks may be nested, with many fields."""
_JSON_SEPARATORS = (b",", b"[", b"{")
_QUOTES = (b'"', b"'")
_TRIED_ENDS = 4
"""So many `>` of a part are looked at: some may stand in quotes."""
_SPACES = 16
"""Spaces between `=` and a quote that are recognized; after more of them, any quote may open a value."""
_SEPARATORS = {"json": _JSON_SEPARATORS, "ndjson": (*_JSON_SEPARATORS, b"\n"), "csv": (b",", b";", b"\t", b"|", b"\n")}


def extract_inline(
    task: PageTask, body: bytes, data_defs: Sequence[tuple[RecordExtractor, bool]], max_links: int
) -> PageResult | None:
    """Extract a page here; None: it may take long. `data_defs`: each, and whether its rows are wanted.

    Raises UnsupportedContent and PageTooCostly.
    """
    if not may_be_inline(body, task.content_type):
        return None
    try:
        page = parse_page(
            body, task.content_type, url=task.url, status=task.status, fetched_at=task.fetched_at, headers=task.headers
        )
        speeds = [extractor.speed for extractor, _ in data_defs]
        speeds += [compile_presence(selector).speed for selector in list_selectors(task.context.rules)]
        if not is_plain(page, body, speeds):
            return None
        return apply_data_defs(page, task.context, data_defs, max_links, patience=INLINE_SECONDS)
    except (NeedsProcess, OutOfTime):
        return None


def may_be_inline(body: bytes, content_type: str) -> bool:
    """Whether a body is small, and quickly decoded; the loop may extract it if the page also `is_plain`."""
    return len(body) <= MAX_INLINE_BYTES and not needs_detection(body, content_type)


def is_plain(page: Page, body: bytes, speeds: Iterable[Speed]) -> bool:
    """Whether the page has few parts, and selectors of these speeds search it in bounded time."""
    speed = max(speeds, default=Speed.QUICK)
    if page.kind == "xml" or speed is Speed.SLOW:
        return False
    if page.kind != "html":
        return _has_few(body, _SEPARATORS[page.kind])
    tags = page.markup.tags
    if tags > _MAX_TAGS or (tags * tags > 4 * _MAX_REPEATED and page.markup.formatting_tags * tags > _MAX_REPEATED):
        return False
    if len(page.utf8) > MAX_TAG_BYTES and _may_have_many_attributes(page):
        return False
    return speed is Speed.QUICK or (_has_few(body, _JSON_SEPARATORS) and not page.is_deeper(_MAX_LEVELS))


def _may_have_many_attributes(page: Page) -> bool:
    """Whether an element may have so many attributes that Lexbor takes long.

    A tag of twice the length of a part would fill one of them: then none of its `>` is the end of a tag.
    """
    if any(page.markup.words.count(root) > 1 for root in ROOTS):
        return True
    markup = page.utf8
    part = MAX_TAG_BYTES * MAX_TAG_BYTES // (2 * len(markup))
    return not all(_ends_a_tag(markup, start, start + part) for start in range(0, len(markup) - part + 1, part))


def _ends_a_tag(markup: bytes, start: int, end: int) -> bool:
    """Whether a `>` of this part certainly does not stand in the quotes of an attribute."""
    for _ in range(_TRIED_ENDS):
        at = markup.find(b">", start, end)
        if at < 0:
            return False
        if not any(_opens_value(markup, markup.rfind(quote, 0, at)) for quote in _QUOTES):
            return True
        start = at + 1
    return False


def _opens_value(markup: bytes, quote: int) -> bool:
    """Whether the quote at this index, -1 for a missing one, may open the value of an attribute."""
    before = markup[max(0, quote - _SPACES) : max(0, quote)].rstrip()
    return quote >= 0 and (not before or before.endswith(b"="))


def _has_few(body: bytes, separators: Sequence[bytes]) -> bool:
    return sum(map(body.count, separators)) <= _MAX_VALUES
