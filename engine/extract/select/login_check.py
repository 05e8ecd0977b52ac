"""Tells by a selector whether a page was answered without a login."""

from functools import lru_cache

from engine.extract.page.page import Page
from engine.extract.select.scope import Scope
from engine.extract.select.selector import Selector
from engine.extract.select.selectors import compile_selector


def is_logged_out(page: Page, check: str) -> bool:
    """Whether an HTML page of status 2xx lacks a match of `check`; False for other pages."""
    if page.kind != "html" or not 200 <= page.status < 300:
        return False
    return compile_check(check).first(Scope(page)) is None


@lru_cache(maxsize=64)
def compile_check(check: str) -> Selector:
    return compile_selector(check)
