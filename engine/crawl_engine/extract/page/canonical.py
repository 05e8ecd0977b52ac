"""Finds the canonical URL that a page, or its header `Link`, gives as its own."""

from crawl_engine import urls
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.link_header import find_linked
from crawl_engine.extract.page.page import Page, resolve_url
from crawl_engine.model.job import link_key
from crawl_engine.model.link import Carried, LinkDetails, LinkRequest
from crawl_engine.model.record import ExtractedLink
from crawl_engine.urls import QueryStripper

_CANONICAL = "head > link[rel~=canonical i][href]"


def find_canonical(page: Page, context: Context, query_stripper: QueryStripper | None) -> ExtractedLink | None:
    """The link to the page's canonical URL if it is another page of the same host, else None."""
    node = page.tree.css_first(_CANONICAL) if page.tree is not None else None
    href = node.attrs.get("href") if node is not None else None
    base = page.base
    if not (href and href.strip()):
        base, href = page.url, find_linked(page.headers, "canonical")
    url = resolve_url(base, href, query_stripper) if href and href.strip() else None
    if url is None:
        return None
    own = urls.normalize(page.url) or page.url
    if url in (own, context.requested_url) or urls.host_without_www(url) != urls.host_without_www(own):
        return None
    carried = Carried(values=context.carried).to_json() if context.carried else None
    details = LinkDetails(LinkRequest(relation="canonical"), carried)
    return ExtractedLink(url, context.group, 0, None, link_key(context.group, url), details=details)
