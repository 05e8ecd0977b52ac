"""Session cookies of a whole crawl: httpx's jar, kept by site so that a crawl of many hosts stays quick and bounded."""

from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy

import httpx

from engine import urls
from engine.fetch.request import OutgoingRequest

_MAX_SITES = 5000
_MAX_SITE_COOKIES = 150
"""Of one site. Servers that set a new name with each page would otherwise make every request longer."""


class SessionCookies:
    """What sites set, and get back. Never across sites: a jar looks through all its domains for each request.

    A site is the last two labels of a host, or an address: a cookie's Domain cannot reach beyond that.
    """

    __slots__ = ("_sites",)

    def __init__(self) -> None:
        self._sites: dict[str, httpx.Cookies] = {}

    def update_from(self, response: httpx.Response) -> None:
        """Take the Set-Cookie headers of an answer to an `Outgoing`. Costs 50 µs."""
        request = response.request
        assert isinstance(request, OutgoingRequest)
        site = _site_key(urls.host_of(request.target))
        cookies = self._sites.pop(site, None)
        if cookies is None:
            cookies = httpx.Cookies()
            cookies.jar = CookieJar(_cookie_policy())
        try:
            cookies.extract_cookies(response)
        except httpx.InvalidURL:  # httpx takes fewer URLs than browsers do; such a page keeps no cookies
            pass
        jar = cookies.jar
        for _ in range(len(jar) - _MAX_SITE_COOKIES):
            oldest: Cookie = next(iter(jar))
            jar.clear(oldest.domain, oldest.path, oldest.name)
        if len(jar):
            self._sites[site] = cookies  # at the end: the site used last leaves last
        if len(self._sites) > _MAX_SITES:
            del self._sites[next(iter(self._sites))]

    def add_to(self, request: OutgoingRequest) -> None:
        """Put the site's cookies into the Cookie header; one the user wrote in the defs wins over one of its name.

        Costs 40 µs where the site set cookies, else next to nothing.
        """
        cookies = self._sites.get(_site_key(urls.host_of(request.target))) if self._sites else None
        if cookies is None:
            return
        try:
            probe = httpx.Request("GET", request.url)
        except httpx.InvalidURL:
            return
        cookies.set_cookie_header(probe)
        kept = probe.headers.get("Cookie")
        if not kept:
            return
        written = request.extra_headers.get("Cookie")
        if written:
            taken = {pair.partition("=")[0] for pair in written.split("; ")}
            kept = "; ".join(pair for pair in kept.split("; ") if pair.partition("=")[0] not in taken)
            kept = f"{kept}; {written}" if kept else written
        request.extra_headers["Cookie"] = kept


def _cookie_policy() -> DefaultCookiePolicy:
    """Browsers' rules; Python's are laxer: no cookie for all of `co.uk`, none for subdomains unless it says so."""
    return DefaultCookiePolicy(strict_domain=True, strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)


def _site_key(host: str) -> str:
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host
    return ".".join(host.split(".")[-2:])
