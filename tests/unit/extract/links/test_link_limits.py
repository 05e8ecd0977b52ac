"""A page gives at most `max_links` links; the rest is counted, in bounded memory."""

import tracemalloc

import pytest

from crawl_engine.extract.links.links import limit_links
from crawl_engine.extract.page.page import MAX_BASE_CHARACTERS, MAX_URL_CHARACTERS
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef
from crawl_engine.model.link import Link
from crawl_engine.model.record import ExtractedLink, Extraction
from tests.unit.extract.pages import CONTEXT, page


def extract(text: str, max_links: int, *links: Link) -> Extraction:
    data_def = DataDef(name="d", links=links or (Link(selector="a"),))
    return RecordExtractor(data_def, max_links=max_links).extract(page(text), CONTEXT)


def anchors(count: int, prefix: str = "") -> str:
    return "".join(f"<a href={prefix}{number}>x</a>" for number in range(count))


def numbers(extraction: Extraction) -> list[str]:
    return [link.url.rpartition("/")[2] for link in extraction.links]


def test_the_first_links_are_kept_and_the_rest_is_counted() -> None:
    extraction = extract(anchors(30), 10)
    assert numbers(extraction) == [str(number) for number in range(10)]
    assert extraction.dropped_links == 20
    assert extract(anchors(30), 30).dropped_links == 0
    assert extract(anchors(30), 0).links == ()
    assert extract(anchors(30), 0).dropped_links == 30


def test_repeated_links_count_once() -> None:
    extraction = extract(anchors(10) * 40 + '<a href="3#part">x</a>', 10)
    assert len(extraction.links) == 10
    assert extraction.dropped_links == 0


def test_the_limit_counts_all_selectors_of_a_page_together() -> None:
    text = anchors(20) + anchors(20, "b").replace("<a ", "<area ")
    extraction = extract(text, 25, Link(selector="a"), Link(selector="area"))
    assert numbers(extraction) == [*map(str, range(20)), *(f"b{number}" for number in range(5))]
    assert extraction.dropped_links == 15


def test_the_limit_counts_all_data_defs_together() -> None:
    first = [ExtractedLink(f"http://h/{number}", "g", 0, None, bytes([number])) for number in range(4)]
    again = [ExtractedLink(f"http://h/{number}", "g", 0, 3, bytes([number])) for number in range(6)]
    assert limit_links([first, again], 20) == ([*first, *again], 0)
    assert limit_links([first, again], 5) == ([*first, *again[:5]], 1)


def test_many_links_take_bounded_memory() -> None:
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a"),)), max_links=1_000)
    hostile = page(anchors(200_000))
    assert hostile.tree is not None
    tracemalloc.start()
    extraction = extractor.extract(hostile, CONTEXT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(extraction.links) == 1_000
    assert extraction.dropped_links == 199_000
    assert peak < 40_000_000, "200,000 elements take 13 MB, the URLs of 10,000 and the cache of their hrefs the rest"


def test_links_that_are_not_kept_do_not_fill_the_cache() -> None:
    extractor = RecordExtractor(DataDef(name="d", links=(Link(selector="a", same_host=True),)), max_links=1_000)
    hostile = page(anchors(100_000, "http://other.example/"))
    assert hostile.tree is not None
    tracemalloc.start()
    assert extractor.extract(hostile, CONTEXT).links == ()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 20_000_000


@pytest.mark.parametrize("length", [MAX_URL_CHARACTERS + 1, 2_000_000])
def test_an_overlong_link_is_dropped(length: int) -> None:
    assert numbers(extract(f"<a href={'x' * length}>x</a><a href=y>y</a>", 10)) == ["y"]


def test_an_overlong_base_is_ignored() -> None:
    base = f"<base href='https://shop.example/{'x' * MAX_BASE_CHARACTERS}/'>"
    [link] = extract(f"{base}<a href=y>y</a>", 10).links
    assert link.url == "https://shop.example/catalogue/y"


def test_a_long_base_does_not_multiply_without_bound() -> None:
    base = f"<base href='https://shop.example/{'x' * (MAX_BASE_CHARACTERS - 100)}/'>"
    extraction = extract(base + anchors(50_000), 50_000)
    assert sum(len(link.url) for link in extraction.links) < 21_000_000
    assert len(extraction.links) + extraction.dropped_links == 50_000
