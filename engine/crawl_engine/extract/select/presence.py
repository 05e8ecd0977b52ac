"""Tells whether a page lacks an element, which shows that a login or a browser is missing."""

from functools import lru_cache

from crawl_engine.extract.page.page import Page
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.selectors import compile_selector


def lacks_element(page: Page, selector: str) -> bool:
    """Whether an HTML page of status 2xx lacks a match of `selector`; False for other pages."""
    if page.kind != "html" or not 200 <= page.status < 300:
        return False
    return compile_presence(selector).first(Scope(page)) is None


@lru_cache(maxsize=64)
def compile_presence(selector: str) -> Selector:
    return compile_selector(selector)
