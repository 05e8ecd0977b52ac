"""Resolves the URLs that pages give, as the keys of jobs hold them."""

from engine import urls
from engine.urls import QueryStripper

MAX_URL_CHARACTERS = 16_384
"""Of one link; no server takes a longer one."""


def resolve_url(base: str, href: str, query_stripper: QueryStripper | None) -> str | None:
    """The URL of an href, without credentials and dropped query keys; None: it is no http URL, or too long."""
    url = urls.join(base, href)
    if url is None or len(url) > MAX_URL_CHARACTERS:
        return None
    if "@" in url:
        url = urls.without_credentials(url)  # a page's credentials are neither stored nor sent
    return url if query_stripper is None else query_stripper.strip_url(url)
