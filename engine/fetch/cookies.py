"""Session cookies of a crawl: an httpx cookie jar that is split by site and bounded in size."""

from functools import cache, lru_cache
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import Request as UrllibRequest

import httpx

from engine import urls
from engine.fetch.request import OutgoingRequest

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_MAX_SITES = 5000
_MAX_SITE_COOKIES = 150
"""Per site. Otherwise a server that sets a new cookie on each page makes every request longer."""


class SessionCookies(httpx.Cookies):
    """The cookies of each site. One jar per site, because a jar searches all its domains for each request.

    A site is a registrable domain: the public suffix and one more label. Cookies never leave it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sites: dict[str, httpx.Cookies] = {}

    def extract_cookies(self, response: httpx.Response) -> None:
        """Store the cookies of a response to an `OutgoingRequest`. Takes 50 µs.

        The first cookie of a process takes 0.1 s: it loads the public suffix list.
        """
        site = _site_of_request(response.request)
        cookies = self._sites.pop(site, None)
        if cookies is None:
            cookies = httpx.Cookies(CookieJar(_SitePolicy()))
        cookies.extract_cookies(response)
        jar = cookies.jar
        for _ in range(len(jar) - _MAX_SITE_COOKIES):
            oldest: Cookie = next(iter(jar))
            jar.clear(oldest.domain, oldest.path, oldest.name)
        if len(jar):
            self._sites[site] = cookies  # at the end: the site that set cookies last is dropped last
        if len(self._sites) > _MAX_SITES:
            del self._sites[next(iter(self._sites))]

    def set_cookie_header(self, request: httpx.Request) -> None:
        """Add the site's cookies to the Cookie header. A cookie from the defs overrides one of the same name.

        Takes 40 µs if the site set cookies, else next to nothing.
        """
        cookies = self._sites.get(_site_of_request(request)) if self._sites else None
        if cookies is None:
            return
        probe = httpx.Request("GET", request.url)
        cookies.set_cookie_header(probe)
        stored = probe.headers.get("Cookie")
        if not stored:
            return
        from_defs = request.headers.get("Cookie")
        if from_defs:
            overridden = {pair.partition("=")[0] for pair in from_defs.split("; ")}
            stored = "; ".join(pair for pair in stored.split("; ") if pair.partition("=")[0] not in overridden)
            stored = f"{stored}; {from_defs}" if stored else from_defs
        request.headers["Cookie"] = stored


class _SitePolicy(DefaultCookiePolicy):
    """The rules of browsers: no Domain that is a public suffix, no subdomains without a Domain attribute."""

    def __init__(self) -> None:
        super().__init__(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)

    def set_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Whether a response to `request` may set a cookie with this Domain."""
        domain = cookie.domain.strip(".")
        # A host that is itself a public suffix may set cookies: no other host shares its jar.
        is_own_host = domain == urlsplit(request.full_url).hostname
        if cookie.domain_specified and not is_own_host and _public_suffixes().is_public(domain):
            return False
        return super().set_ok_domain(cookie, request)


def _site_of_request(request: httpx.Request) -> str:
    assert isinstance(request, OutgoingRequest)
    return _site_of(urls.host_of(request.target))


@lru_cache(maxsize=10_000)
def _site_of(host: str) -> str:
    """The registrable domain of a host; the host itself for an address or a public suffix."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host
    return _public_suffixes().privatesuffix(host) or host


@cache
def _public_suffixes() -> "PublicSuffixList":
    """The list that the package bundles."""
    from publicsuffixlist import PublicSuffixList  # takes 0.1 s with the list: only crawls with cookies need it

    return PublicSuffixList()
