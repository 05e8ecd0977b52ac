"""Session cookies of a crawl, split by site and bounded in size; several threads may use them."""

import threading
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import httpx

from engine import urls
from engine.http.request import OutgoingRequest
from engine.http.site_cookies import SiteCookies

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_MAX_SITES = 5000


class SessionCookies:
    """The cookies of each site. One jar per site, because a jar searches all its domains for each request.

    A site is a registrable domain: the public suffix and one more label. Cookies never leave it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sites: dict[str, SiteCookies] = {}
        self._shared: set[str] = set()
        """Sites whose cookies go to other nodes: a session must not end because other sites set cookies."""

    def extract_cookies(self, request: httpx.Request, set_cookies: Sequence[str]) -> bool:
        """Store the cookies of a response to an `OutgoingRequest`; returns whether that changed any.

        The first cookie of a process takes 0.1 s: it loads the public suffix list.
        """
        assert isinstance(request, OutgoingRequest)
        site = site_of(urls.host_of(request.target))
        with self._lock:
            cookies = self._sites.pop(site, None)
            if cookies is None:
                cookies = SiteCookies(_is_public_suffix)
            changed = cookies.take(request, set_cookies)
            if len(cookies) or changed:
                self._sites[site] = cookies  # at the end: the site that set cookies last is dropped last
            if len(self._sites) > _MAX_SITES + len(self._shared):
                del self._sites[next(site for site in self._sites if site not in self._shared)]
        return changed

    def set_cookie_header(self, request: httpx.Request) -> None:
        """Add the site's cookies to the Cookie header. A cookie from the defs overrides one of the same name."""
        if not self._sites:
            return
        assert isinstance(request, OutgoingRequest)
        with self._lock:
            cookies = self._sites.get(site_of(urls.host_of(request.target)))
            stored = cookies.header(request) if cookies is not None else ""
        if not stored:
            return
        from_defs = request.headers.get("Cookie")
        if from_defs:
            overridden = {pair.partition("=")[0] for pair in from_defs.split("; ")}
            stored = "; ".join(pair for pair in stored.split("; ") if pair.partition("=")[0] not in overridden)
            stored = f"{stored}; {from_defs}" if stored else from_defs
        request.headers["Cookie"] = stored

    def export(self, site: str) -> list[dict[str, Any]]:
        """The cookies of a site as JSON values, each with the time of its last change."""
        with self._lock:
            self._shared.add(site)
            cookies = self._sites.get(site)
            return [] if cookies is None else cookies.export()

    def merge(self, site: str, entries: Sequence[Mapping[str, Any]]) -> None:
        """Take over exported cookies of a site; of each cookie the newer one stays."""
        with self._lock:
            self._shared.add(site)
            cookies = self._sites.get(site)
            if cookies is None:
                cookies = self._sites[site] = SiteCookies(_is_public_suffix)
            cookies.merge(entries)


@lru_cache(maxsize=10_000)
def site_of(host: str) -> str:
    """The registrable domain of a host; the host itself for an address or a public suffix."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host
    return _public_suffixes().privatesuffix(host) or host


def _is_public_suffix(domain: str) -> bool:
    return _public_suffixes().is_public(domain)


@cache
def _public_suffixes() -> "PublicSuffixList":
    """The list that the package bundles."""
    from publicsuffixlist import PublicSuffixList  # takes 0.1 s with the list: only crawls with cookies need it

    return PublicSuffixList()
