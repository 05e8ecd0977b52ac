"""Finds the languages of a field: those that its `locale` names, and those that stand in the page."""

from collections.abc import Callable

from crawl_engine.extract.fields.human_dates import is_locale_selector
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.select.node_value import read_text
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selectors import PageSelector, compile_selector
from crawl_engine.model.definition import Field


def languages_of(field: Field) -> tuple[str, ...]:
    """The languages that its `locale` names; not those that stand in a page."""
    from crawl_engine.extract.fields.magnitudes import language_of

    return tuple([language_of(locale) for locale in field.locales if not is_locale_selector(locale)])


def find_languages(field: Field) -> Callable[[Page], tuple[str, ...]]:
    """The languages of a page's words of magnitude, which may stand in the page; one that does not say has none."""
    from crawl_engine.extract.fields.magnitudes import language_of  # few fields read words of magnitude

    if not reads_locale(field):
        languages = tuple(map(language_of, field.locales))
        return lambda _page: languages
    sources = locale_sources(field)
    return lambda page: tuple([language_of(text) for text in read_locales(sources, page)])


def locale_sources(field: Field) -> list[PageSelector | str]:
    """Its locales, and the selectors that find them in a page."""
    return [PageSelector(compile_selector(text)) if is_locale_selector(text) else text for text in field.locales]


def read_locales(sources: list[PageSelector | str], page: Page) -> list[str]:
    """The locales, of which some stand in the page."""
    return [source if isinstance(source, str) else _read_first(source, page) for source in sources]


def _read_first(selector: PageSelector, page: Page) -> str:
    node = selector.first(Scope(page))
    return "" if node is None else read_text(node) or ""


def reads_locale(field: Field) -> bool:
    """Whether the language of its dates stands in the page."""
    return any(map(is_locale_selector, field.locales))
