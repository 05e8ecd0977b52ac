"""Session cookies of a crawl: one httpx jar per site, bounded in number and size."""

from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy

import httpx

from engine import urls
from engine.fetch.request import OutgoingRequest

_MAX_SITES = 5000
_MAX_SITE_COOKIES = 150
"""Per site. Otherwise a server that sets a new cookie on each page makes every request longer."""


class SessionCookies:
    """The cookies of each site. One jar per site, because a jar searches all its domains for each request.

    A site is the last two labels of a host name, or an address: a cookie's Domain cannot be wider.
    """

    __slots__ = ("_sites",)

    def __init__(self) -> None:
        self._sites: dict[str, httpx.Cookies] = {}

    def update_from(self, response: httpx.Response) -> None:
        """Store the cookies of a response to an `OutgoingRequest`. Takes 50 µs."""
        request = response.request
        assert isinstance(request, OutgoingRequest)
        site = _site_key(urls.host_of(request.target))
        cookies = self._sites.pop(site, None)
        if cookies is None:
            cookies = httpx.Cookies()
            cookies.jar = CookieJar(_cookie_policy())
        try:
            cookies.extract_cookies(response)
        except httpx.InvalidURL:  # httpx rejects some URLs that browsers accept; ignore the cookies of such a page
            pass
        jar = cookies.jar
        for _ in range(len(jar) - _MAX_SITE_COOKIES):
            oldest: Cookie = next(iter(jar))
            jar.clear(oldest.domain, oldest.path, oldest.name)
        if len(jar):
            self._sites[site] = cookies  # at the end: the site that set cookies last is dropped last
        if len(self._sites) > _MAX_SITES:
            del self._sites[next(iter(self._sites))]

    def add_to(self, request: OutgoingRequest) -> None:
        """Add the site's cookies to the Cookie header. A cookie from the defs overrides one of the same name.

        Takes 40 µs if the site set cookies, else next to nothing.
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
    """The rules of browsers, stricter than Python's default: no cookie for subdomains without a Domain attribute."""
    return DefaultCookiePolicy(strict_domain=True, strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)


def _site_key(host: str) -> str:
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return host
    return ".".join(host.split(".")[-2:])
