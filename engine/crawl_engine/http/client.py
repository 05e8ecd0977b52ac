"""Sends one HTTP request through the chain of transports. Never follows redirects.

The requests, responses and transports are those of httpx. Its `AsyncClient` is not used, for its cost
(docs/performance.md): authentication and redirects follow the crawl's own rules.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from crawl_engine import urls
from crawl_engine.http.address_guard import Resolver
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.decompress import ACCEPT_ENCODING
from crawl_engine.http.exchange import Download, HostTurn, OutgoingRequest, RequestTerms
from crawl_engine.http.request import HostPart, build_request
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.transports.body import BodyTransport
from crawl_engine.http.transports.guard import GuardTransport, Resolvers
from crawl_engine.http.transports.host_turn import HostTurnTransport
from crawl_engine.http.transports.middleware import MiddlewareTransport, NamedMiddleware
from crawl_engine.http.transports.route import RouteTransport
from crawl_engine.http.transports.session_cookies import CookieTransport
from crawl_engine.model.host import HostAuth, HostRoute, RequestedSignature, SignRule
from crawl_engine.model.job import Request
from crawl_engine.settings import Settings

if TYPE_CHECKING:
    from http.cookiejar import Cookie

    from crawl_engine.http.digest import DigestAuthenticator
    from crawl_engine.http.signing.signer import RequestSigner

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_PAIRS: Mapping[str, str] = MappingProxyType({})


class Fetcher:
    """Sends requests over one connection pool. Use it from one event loop."""

    def __init__(
        self,
        *,
        user_agent: str,
        deadline: float,
        max_body: int,
        connections: int,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        cookies: SessionCookies | None = None,
    ) -> None:
        """`deadline`: seconds for a whole request. `max_body`: bytes of a body, both as sent and decompressed.

        `resolver` resolves host names, but not IP address literals. `tls` replaces the system's trust store,
        for hosts without a route. `cookies`: those of the sites so far, which other threads may read.
        """
        self.resolvers = resolvers = Resolvers(resolver)
        headers = {"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING}
        route = RouteTransport(
            headers=headers, connections=connections, deadline=deadline, resolvers=resolvers, tls=tls
        )
        self._guard = GuardTransport(route, resolvers)
        body = BodyTransport(self._guard, deadline=deadline, max_body=max_body)
        self._cookies = cookies if cookies is not None else SessionCookies()
        jar = CookieTransport(body, self._cookies)
        self._chain = HostTurnTransport(jar)
        self._middleware = MiddlewareTransport(self._chain, deadline=deadline, max_body=max_body)
        self._digest: DigestAuthenticator | None = None
        self._signer: RequestSigner | None = None

    @classmethod
    def from_settings(cls, settings: Settings, *, connections: int, cookies: SessionCookies | None = None) -> "Fetcher":
        return cls(
            user_agent=settings.full_user_agent,
            deadline=settings.deadline,
            max_body=settings.max_body,
            connections=connections,
            cookies=cookies,
        )

    async def send(
        self,
        url: str,
        request: Request,
        *,
        headers: Mapping[str, str] = _NO_PAIRS,
        cookies: Mapping[str, str] = _NO_PAIRS,
        auth: HostAuth | None = None,
        authorization: str | None = None,
        sign: SignRule | None = None,
        requested_signature: RequestedSignature | None = None,
        route: HostRoute | None = None,
        url_from_defs: bool = False,
        exempt: bool = False,
        find_exemption: Callable[[], bool] | None = None,
        turn: HostTurn | None = None,
        middleware: tuple[NamedMiddleware, ...] = (),
        read_at_most: int | None = None,
        session_cookies: bool = True,
        keep_cookies: bool = True,
        share: BodyShare | None = None,
        download: Download | None = None,
    ) -> FetchResponse:
        """Send one request and read its response, of any status. Does not follow redirects.

        `headers`, `cookies` and `auth` are the host's; those of `request` override them. `authorization`: the
        `challenge_answer` of the response before. `sign`: how it is signed, and
        `requested_signature`: what that response asked for. `route`: how the request travels.
        `url_from_defs`: the URL is a text of the defs, so its variables are expanded; never set it for links and
        redirects of a page.
        `exempt`: the host may be at a guarded address, such as one of the local network.
        `find_exemption`: asked if the guard refuses a host that is not. `turn`: of the job at the host.
        `middleware`: the first is the outermost.
        `read_at_most`: bytes of the body after which to stop reading; a longer one is cut, not refused.
        `session_cookies`: whether to send the cookies that the site has set; `keep_cookies`: to keep those it sets.
        `share` grows with the body; the time it waits for room counts neither for the deadline nor as elapsed. It is
        released where no body is returned. Raises `NoRoom` if it waits longer than the deadline in all.
        `download`: the content of a 200 or 206 goes to the part of a file, and the deadline begins again as it grows;
        `elapsed` is the time to its head.
        Raises `FetchFailed`; `AddressRefused` (nothing was sent) if the host is not exempt and has guarded addresses
        only, or is a name that only a proxy would resolve.
        """
        terms = RequestTerms(
            url=urls.without_credentials(url),
            exempt=exempt,
            find_exemption=find_exemption,
            route=route,
            turn=turn,
            middleware=middleware,
            sends_cookies=session_cookies,
            keeps_cookies=keep_cookies,
            read_at_most=read_at_most,
            share=share,
            download=download,
        )
        sent = build_request(url, request, headers, cookies, from_defs=url_from_defs, auth=auth, terms=terms)
        first = None
        if auth is not None and auth.kind == "digest":
            if authorization is None:  # the challenge that another request gets serves this one, too
                await self._digest_authenticator().wait_for_first(url, auth)
            first = self._authorize(sent, auth, authorization)
        if sign is not None:
            self._request_signer().attach(sent, sign, requested_signature)
        if download is not None:
            sent.headers.update({"Accept": sent.headers.get("Accept", "*/*"), **download.request_headers(sent.target)})
        try:
            chain = self._middleware if middleware else self._chain
            return (await chain.handle_async_request(sent)).fetched
        finally:
            if first is not None:
                first.set()

    def cookie_header(
        self, url: str, request: Request, part: HostPart, *, url_from_defs: bool = False, session_cookies: bool = True
    ) -> str:
        """The Cookie header that `send` would give the request now."""
        sent = build_request(url, request, part.headers, part.cookies, from_defs=url_from_defs)
        if session_cookies:
            self._cookies.set_cookie_header(sent)
        return str(sent.headers.get("Cookie", ""))

    def site_cookies(self, sent: OutgoingRequest) -> "list[Cookie]":
        """The cookies of the whole site of a request, for another client that loads a page."""
        return self._cookies.list_fitting(urls.host_of(sent.target))

    def keep_cookies(self, sent: OutgoingRequest, set_cookies: Sequence[str]) -> str:
        """Keep what a page that another client loaded has set; the site whose cookies changed, or an empty text."""
        return self._cookies.extract_cookies(sent, set_cookies) if set_cookies else ""

    async def check_address(self, url: str, route: HostRoute | None = None) -> None:
        """Raise AddressRefused if the address guard refuses the host of a normalized URL now. Sends nothing."""
        await self._guard.check(url, route)

    async def aclose(self) -> None:
        await self._chain.aclose()

    def _authorize(self, sent: OutgoingRequest, auth: HostAuth, authorization: str | None) -> asyncio.Event | None:
        """Set the header of digest authentication. Returns the event to set at the end of a host's first request."""
        if "Authorization" in sent.headers:
            return None
        if authorization is not None:
            sent.headers["Authorization"] = authorization
            return None
        authenticator = self._digest_authenticator()
        authenticator.authorize(sent, auth)
        sent.terms.answer_challenge = partial(authenticator.answer, sent, auth)
        return authenticator.begin(sent, auth)

    def _request_signer(self) -> "RequestSigner":
        if self._signer is None:
            from crawl_engine.http.signing.signer import RequestSigner

            self._signer = RequestSigner()
        return self._signer

    def _digest_authenticator(self) -> "DigestAuthenticator":
        if self._digest is None:
            from crawl_engine.http.digest import DigestAuthenticator

            self._digest = DigestAuthenticator()
        return self._digest
