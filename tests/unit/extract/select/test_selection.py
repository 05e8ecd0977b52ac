"""What one selector matches on a page."""

import pytest

from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import PatternTimeout
from crawl_engine.extract.select.selection import Selection, SelectionResult, select_values

PAGE = "<base href='/x/'><ul><li><a href=1>one  1</a><li><a href=2>two 2</a><li>none</ul>"


def select(selector: str, text: str = PAGE, **more: object) -> SelectionResult:
    page = Page(url="http://a/", text=text, kind="html", status=200, fetched_at=0.0)
    selection: dict[str, object] = {"selector": selector, **more}
    return select_values(page, Selection(**selection))  # type: ignore[arg-type]


def test_values_links_and_the_base_are_returned_up_to_the_limit() -> None:
    result = select("a", limit=1)
    assert (result.values, result.links, result.count, result.base) == (("one 1",), ("1",), 2, "http://a/x/")
    assert select("xpath: //a/@href").values == ("1", "2")
    assert select("a", attribute="html").values == ("one  1", "two 2")
    assert select("a", pattern="[0-9]").values == ("1", "2")


def test_selectors_search_inside_each_block() -> None:
    result = select("a", block="li")
    assert (result.values, result.blocks, result.blocks_without) == (("one 1", "two 2"), 3, 1)


def test_a_regular_expression_searches_the_source() -> None:
    result = select("href=(.)", regex=True, limit=2)
    assert (result.values, result.count) == (("'", "1"), 3)


def test_a_wrong_selector_or_pattern_is_an_error() -> None:
    for arguments in ({"selector": "["}, {"selector": "a", "block": "["}, {"selector": "a", "pattern": "("}):
        with pytest.raises(ValueError, match=r"not a CSS selector|cannot be compiled"):
            select(**arguments)
    with pytest.raises(PatternTimeout):
        select("(a|aa)+$", "a" * 100 + "!", regex=True)
