"""Follows redirects one hop at a time; the caller sends each request."""

from collections.abc import Awaitable, Callable, Sequence

from engine.http.redirects import build_redirect_request
from engine.http.response import FetchResponse
from engine.model.job import Request, document_key
from engine.urls import QueryStripper

SendHop = Callable[[str, Request], Awaitable[FetchResponse]]
"""Sends one request. Raises FetchFailed."""


class RedirectRejected(Exception):
    """A redirect that is not followed: no valid target, too many hops, or a loop. The text says which."""


class TooManyRedirects(RedirectRejected):
    """The limit of redirects is reached."""


class RedirectChain:
    """The hops of one fetch: the URL and request to send next, and the document keys of all URLs so far."""

    __slots__ = ("_limit", "_query_stripper", "hops", "keys", "request", "url")

    def __init__(
        self, url: str, request: Request, *, limit: int, hops: int = 0, earlier_keys: Sequence[bytes] = (),
        query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        """`limit`: redirects to follow, `hops` of them already followed, from the URLs of `earlier_keys`.

        `query_stripper`: for the targets; None: they are followed as the site gives them.
        """
        self.url = url
        self.request = request
        self.hops = hops
        self.keys = [*earlier_keys, _key_of(url, request)]
        self._limit = limit
        self._query_stripper = query_stripper

    def advance(self, response: FetchResponse) -> None:
        """Move to a redirect's target. Raises RedirectRejected; FetchFailed where a secret would leave its site."""
        if response.location is None:
            raise RedirectRejected(response.location_problem or "invalid redirect")
        if self.hops >= self._limit:
            raise TooManyRedirects(f"more than {self.hops} redirects")
        self.request = build_redirect_request(self.request, response.status, self.url, response.location)
        self.url = self._choose_target(response.location)
        self.hops += 1
        key = _key_of(self.url, self.request)
        if key in self.keys:
            raise RedirectRejected("redirect loop")
        self.keys.append(key)

    def _choose_target(self, location: str) -> str:
        """The target without the keys that its host drops; as it is where that was asked for already.

        A site that sends each request without its session key to the same URL with one would never answer otherwise.
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
