"""Finds the page that follows another, by values of the page such as a cursor."""

from collections.abc import Mapping, Sequence
from typing import Any

from crawl_engine import urls
from crawl_engine.errors import quote_text
from crawl_engine.extract.links.filled_text import MissingValue, NoNumber, fill_url
from crawl_engine.extract.links.form_encoding import encode_form, merge_fields
from crawl_engine.extract.links.html_form import with_query
from crawl_engine.extract.links.request_template import fill_body, fill_headers, sends_secret_elsewhere
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.link_header import find_linked
from crawl_engine.extract.page.page import MAX_URL_CHARACTERS, Page, host_name, resolve_url
from crawl_engine.extract.page.patterns import TimeBudget
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.node_value import JsonValue, read_node
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector_syntax import read_header_name
from crawl_engine.extract.select.selectors import compile_selector
from crawl_engine.late_regex import late_regex
from crawl_engine.model.host import REDACTED
from crawl_engine.model.job import link_key, request_key
from crawl_engine.model.link import Carried, LinkDetails, LinkRequest, NextPage, PageBlocks, TextSource
from crawl_engine.model.locator import MAX_SERIES_PAGES
from crawl_engine.model.record import ExtractedLink
from crawl_engine.model.variables import HEADER
from crawl_engine.urls import QueryStripper

_GET = "GET"
_DATE = late_regex(r"[A-Z][a-z]{2}, \d\d? ")
"""The beginning of a date of HTTP, which has a comma."""
_NUMBER = late_regex(r"-?[0-9]{1,18}")


class NextPageFinder:
    """A compiled `next` of a dataDef. Raises ValueError if a selector does not compile."""

    def __init__(
        self, next_page: NextPage, priorities: Mapping[str, int], query_stripper: QueryStripper | None = None,
        sources: Sequence[TextSource] = (),
    ) -> None:  # fmt: skip
        self._query_stripper = query_stripper
        self._request = next_page.request
        self._header = next_page.header
        self._priorities = priorities
        self.until_empty = next_page.until_empty
        self._steps = next_page.steps
        places = (sources, ()) if sources else ((),)
        self._headers = {
            name: f"{HEADER}{header}" for name, text in next_page.variables if (header := read_header_name(text))
        }
        self._selectors = {
            name: [compile_selector(text, place) for place in places]
            for name, text in next_page.variables
            if name not in self._steps and name not in self._headers
        }
        """By the name of a variable: its selector; with sources in their documents, and then on the page itself."""
        self._by_variables = bool(self._selectors or self._headers)
        """Whether variables lead on; else a header that the request names does."""
        speeds = [selector.speed for selectors in self._selectors.values() for selector in selectors]
        self.speed = max(speeds, default=Speed.QUICK)

    def find(
        self, page: Page, context: Context, blocks: PageBlocks | None, time_budget: TimeBudget
    ) -> ExtractedLink | None:
        """The next page; None: this is the last. `blocks`: of this page, for `until`. Raises OutOfTime."""
        if self.until_empty and (blocks is None or not blocks.present):
            return None

        def look_up(name: str) -> Any:
            if name in self._selectors:
                time_budget.check_patience()
                return self._select(name, page)
            known = self._headers.get(name, name)
            written = context.look_up(known, page)
            leads_on = name in self._headers or (not self._by_variables and name.startswith(HEADER))
            return _read_header(page, known.removeprefix(HEADER), written) if leads_on else written

        try:
            return self._make_link(page, context, look_up, blocks)
        except NoNumber as refused:
            page.faults[f"`next`: {refused.text}"] = None
            return None
        except MissingValue:
            return None

    def _make_link(
        self, page: Page, context: Context, look_up: Any, blocks: PageBlocks | None
    ) -> ExtractedLink | None:  # fmt: skip
        template = self._request
        href = self._add_steps(page, context) if self._steps else self._find_href(page, look_up)
        if href is None:
            return None
        method = template.method or ("POST" if template.has_body else _GET)
        body = None
        if method == _GET and template.has_form:
            href = with_query(href, encode_form(merge_fields((), template.form), look_up).text)
        else:
            body = fill_body(template, look_up)
        url = resolve_url(page.base, href, self._query_stripper, context.group)
        if len(href) > MAX_URL_CHARACTERS:
            page.faults[f"`next` has a URL of more than {MAX_URL_CHARACTERS:,} characters"] = None
        if url is None or host_name(url) != page.host:
            return None
        text, content_type = body or (None, None)
        headers = fill_headers(template, look_up)
        if sends_secret_elsewhere(template, text, url, page.url, context.locator_url):
            page.faults[f"`next` would send a secret to {urls.origin(url)}"] = None
            return None
        if method == _GET and text is None:
            if url == page.url:
                return None
            key = link_key(context.group, url)
        else:
            key = request_key(context.group, url, method, text)
        request = LinkRequest(method=method, body=text, content_type=content_type, relation="next", headers=headers)
        digest = blocks.digest if self.until_empty and blocks is not None else ""
        carried = Carried(values=context.carried, blocks=digest).to_json() if context.carried or digest else None
        return ExtractedLink(
            url, context.group, self._priorities.get(context.group, 0), None, key, details=LinkDetails(request, carried)
        )

    def _find_href(self, page: Page, look_up: Any) -> str | None:
        if self._header:
            href = find_linked(page.headers, self._header)
            return None if href is None else urls.join(page.url, href)
        return page.url if self._request.url is None else fill_url(self._request.url, look_up)

    def _add_steps(self, page: Page, context: Context) -> str | None:
        """The URL of the page with its parameters raised; a missing one is 0. None, and a fault, if one cannot be."""
        url = page.url
        for name, step in self._steps.items():
            written = urls.parameter_of(page.url, name)
            if written is None and step == 1:  # the first page may be 0 or 1
                page.faults[f"`next`: the URL has no `{name}`; write the first number in the URL of the locator"] = None
                return None
            number, first = (_number_of(text) for text in (written, urls.parameter_of(context.locator_url, name)))
            if number is None:
                page.faults[f"`next`: `{name}` is not a number in the URL"] = None
                return None
            if number - (first or 0) >= (MAX_SERIES_PAGES - 1) * step:
                page.faults[f"`next`: `{name}` has led to {MAX_SERIES_PAGES:,} pages, and leads no further"] = None
                return None
            url = urls.with_parameter(url, name, str(number + step).zfill(len(written or "") if number > 0 else 0))
        return url

    def _select(self, name: str, page: Page) -> Any:
        """The value of a variable; a JSON value keeps its type. None: missing, blank or false."""
        nodes = (selector.first(Scope(page)) for selector in self._selectors[name])
        node = next((found for found in nodes if found is not None), None)
        if node is None:
            return None
        if isinstance(node, JsonValue):
            value = node.value
            if isinstance(value, list):
                value = next((item for item in value if item is not None), None)
            is_blank = isinstance(value, str) and not value.strip()
            if isinstance(value, dict | list):
                page.faults[f"`next`: `{name}` is an object or a list, which no request can send"] = None
                return None
            return None if is_blank or value is False else value
        text = read_node(node, "text")
        return None if text is None else " ".join(text.split())


def _read_header(page: Page, name: str, written: str | None) -> str | None:
    """The value of a header; None, and a fault, if it has several: some servers join them."""
    written = written or ""
    parts = [written] if _DATE.match(written) else written.split(", ")
    values = dict.fromkeys([part.strip() for part in parts if part.strip() and part != REDACTED])
    if len(values) > 1:
        page.faults[f"`next`: the header {name} has several values: {quote_text(written)}"] = None
        return None
    return next(iter(values), None)


def _number_of(text: str | None) -> int | None:
    """The number of a parameter, 0 for a missing or blank one; None: it has another value."""
    if not text:
        return 0
    return int(text) if _NUMBER.fullmatch(text) else None
