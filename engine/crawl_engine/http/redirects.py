"""Follows redirects one hop at a time, and builds the request for each target."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import SAFE_HEADERS
from crawl_engine.model.job import Request, document_key
from crawl_engine.model.retry_policy import FOUND, SEE_OTHER
from crawl_engine.model.variables import variable_names
from crawl_engine.urls import QueryStripper

_NOTHING: Mapping[bytes, str] = MappingProxyType({})
SendHop = Callable[[str, Request], Awaitable[FetchResponse]]
"""Sends one request. Raises FetchFailed."""
FindCookies = Callable[[str, Request], str]
"""The Cookie header that a request to a URL would have now."""


def build_target_request(request: Request, from_url: str, to_url: str) -> Request:
    """The request to send to the target that a job was put back with: only one that is a GET without body is."""
    return build_redirect_request(request, SEE_OTHER, from_url, to_url)


def build_redirect_request(request: Request, status: int, from_url: str, to_url: str) -> Request:
    """The request to send to a redirect's target. Both URLs are normalized.

    303, and 301 or 302 on a POST, become a GET without body; a page that leads on by itself counts as a 303. When the
    origin changes, cookies and all but the safe headers are dropped.
    Raises `FetchFailed` (not retryable) if the body would carry a `%{…}` variable, a secret, to another origin.
    """
    becomes_get = (status == SEE_OTHER and request.method != "HEAD" and not request.is_plain_get) or (
        status in (301, 302) and request.method == "POST"
    )
    leaves_origin = urls.origin(from_url) != urls.origin(to_url)
    if not becomes_get and not leaves_origin:
        return request
    headers, body = request.headers, request.body
    if becomes_get:
        body = None
        headers = tuple(h for h in headers if not h[0].lower().startswith("content-"))
    if leaves_origin:
        headers = tuple(h for h in headers if h[0].lower() in SAFE_HEADERS and not variable_names(h[1]))
        if body is not None and variable_names(body):
            raise FetchFailed(
                f"redirect to {urls.origin(to_url)} would send the body's %{{…}} variables to another site",
                kind="redirect",
                retryable=False,
                remedy="If you trust that site, use the target as the url of the locator.",
            )
    return Request(
        method="GET" if becomes_get else request.method,
        headers=headers,
        cookies=() if leaves_origin else request.cookies,
        userinfo="" if leaves_origin else request.userinfo,
        body=body,
        content_type=None if body is None else request.content_type,
        in_browser=request.in_browser,
    )


class RedirectRejected(Exception):
    """A redirect that is not followed: no valid target, too many hops, or a loop. The text says which."""

    remedy = "Only the site can fix this."


class TooManyRedirects(RedirectRejected):
    """The limit of redirects is reached."""

    remedy = "Raise the limit with --set max_redirects=N."


class RedirectChain:
    """The hops of one fetch: the URL and request to send next, and the document keys of all URLs so far."""

    __slots__ = ("_find_cookies", "_limit", "_query_stripper", "_sent_cookies", "hops", "keys", "request", "url")

    def __init__(
        self, url: str, request: Request, *, limit: int, hops: int = 0, earlier: Mapping[bytes, str] = _NOTHING,
        query_stripper: QueryStripper | None = None, find_cookies: FindCookies = lambda *_: "",
    ) -> None:  # fmt: skip
        """`limit`: redirects to follow, `hops` of them already followed.

        `earlier`: the keys of URLs that led here in earlier leases, with the Cookie headers that count as theirs.
        `query_stripper`: for the targets; None: they are followed as the site gives them.
        """
        self.url = url
        self.request = request
        self.hops = hops
        key = _key_of(url, request)
        self.keys = [*[known for known in earlier if known != key], key]
        self._limit = limit
        self._query_stripper = query_stripper
        self._find_cookies = find_cookies
        self._sent_cookies = dict(earlier)

    def advance(self, response: FetchResponse) -> None:
        """Move to a redirect's target. Raises RedirectRejected; FetchFailed if a secret would leave its site."""
        if response.location is None:
            raise RedirectRejected(response.location_problem or "invalid redirect")
        self.follow(response.location, response.status, response.cookie_header)

    def follow(self, location: str, status: int = FOUND, cookie_header: str = "") -> None:
        """As `advance`, to a normalized URL. `cookie_header`: of the request that led there.

        The target may be a URL of the chain only if it would now be asked for with another Cookie header.
        """
        if self.hops >= self._limit:
            raise TooManyRedirects(f"more than {self.hops} redirects")
        self._sent_cookies[self.keys[-1]] = cookie_header
        self.request = build_redirect_request(self.request, status, self.url, location)
        self.url = self._choose_target(location)
        self.hops += 1
        key = _key_of(self.url, self.request)
        if key in self.keys:
            if self._find_cookies(self.url, self.request) == self._sent_cookies[key]:
                raise RedirectRejected("redirect loop")
            self.keys.remove(key)
        self.keys.append(key)

    def may_refresh(self, page_url: str, target: str, cookie_header: str | None) -> bool:
        """Whether the page may lead to a normalized URL by itself: to its own only without cookies, if it set some.

        `cookie_header`: of its request; None: it is stored.
        """
        return target != page_url or (cookie_header == "" and bool(self._find_cookies(target, self.request)))

    def _choose_target(self, location: str) -> str:
        """The target without the keys that its host drops; unchanged if that URL was already asked for.

        Otherwise a site that redirects each request without its session key to the same URL with one would never
        answer.
        """
        if self._query_stripper is None:
            return location
        target = self._query_stripper.strip_url(location)
        return location if _key_of(target, self.request) in self.keys else target


def _key_of(url: str, request: Request) -> bytes:
    return document_key(url, request.method, request.body, request.variant)


async def follow_redirects(url: str, request: Request, send: SendHop, *, limit: int) -> tuple[str, FetchResponse]:
    """The last response and its URL, after at most `limit` redirects; it may be a redirect too. Raises FetchFailed."""
    response = await send(url, request)
    for _ in range(limit):
        if response.location is None:
            break
        request = build_redirect_request(request, response.status, url, response.location)
        url = response.location
        response = await send(url, request)
    return url, response
