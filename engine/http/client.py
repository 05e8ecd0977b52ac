"""Sends one HTTP request with limits on time and size. Never follows redirects.

Hosts whose rule sets a proxy, TLS or HTTP/2 have a transport of their own, which is loaded at their first request.
The requests and responses are those of httpx. Its `AsyncClient` is not used: authentication and redirects follow the
crawl's own rules.
"""

import asyncio
import ssl
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver

from engine import urls
from engine.http.byte_budget import BodyShare, NoRoom
from engine.http.cookies import SessionCookies
from engine.http.decompress import ACCEPT_ENCODING, decompress_start, open_decompressor
from engine.http.errors import FetchFailed
from engine.http.request import OutgoingRequest, build_request
from engine.http.response import (
    FILE_STATUSES,
    FetchResponse,
    decode_header,
    join_values,
    parse_retry_after,
    redirect_target,
)
from engine.http.transport import Download, LimitedBody, Transport, TransportResponse
from engine.model.host import HostAuth, HostRoute
from engine.model.job import Request
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.http.digest import DigestAuthenticator
    from engine.http.routed_transport import RoutedTransport

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_PAIRS: Mapping[str, str] = MappingProxyType({})
UNAUTHORIZED = 401
_MAX_DRAINED_BODY = 64 * 1024
"""Bytes of the body of a redirect or challenge to read and discard, to keep the connection. A longer body closes it."""


class Fetcher:
    """Sends requests over one connection pool. Use it from one event loop."""

    def __init__(
        self,
        *,
        user_agent: str,
        deadline: float,
        max_body: int,
        connections: int,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        cookies: SessionCookies | None = None,
    ) -> None:
        """`deadline`: seconds for a whole request. `max_body`: bytes of a body, both as sent and decompressed.

        `resolver` resolves host names, but not IP address literals. `tls` replaces the system's trust store,
        for hosts without a route. `cookies`: those of the sites so far, which other threads may read.
        """
        self._deadline = deadline
        self._max_body = max_body
        self._headers = {"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING}
        self._connections = connections
        self._resolver = resolver
        self._transport = Transport(headers=self._headers, connections=connections, resolver=resolver, tls=tls)
        self._cookies = cookies if cookies is not None else SessionCookies()
        self._routed_transport: RoutedTransport | None = None
        self._digest: DigestAuthenticator | None = None

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
        route: HostRoute | None = None,
        url_from_defs: bool = False,
        exempt: bool = False,
        read_at_most: int | None = None,
        session_cookies: bool = True,
        keep_cookies: bool = True,
        share: BodyShare | None = None,
        download: Download | None = None,
    ) -> FetchResponse:
        """Send one request and read its response, of any status. Does not follow redirects.

        `headers`, `cookies` and `auth` are the host's; those of `request` override them. `authorization`: the
        `challenge_answer` of the response before. `route`: how the request travels. `url_from_defs`: the URL is a
        text of the defs, so its variables are expanded; never set it for links and redirects of a page.
        `exempt`: the host may be at a guarded address, such as one of the local network.
        `read_at_most`: bytes of the body after which to stop reading; a longer one is cut, not refused.
        `session_cookies`: whether to send the cookies that the site has set; `keep_cookies`: to keep those it sets.
        `share` grows with the body; the time it waits for room counts neither for the deadline nor as elapsed. It is
        released where no body is returned. Raises `NoRoom` if it waits longer than the deadline in all.
        `download`: the content of a 200 or 206 goes to the part of a file, and the deadline begins again as it grows;
        `elapsed` is the time to its head.
        Raises `FetchFailed`; `AddressRefused` (nothing was sent) if the host is not exempt and has guarded addresses
        only, or is a name that only a proxy would resolve.
        """
        start = perf_counter()
        sent = build_request(url, request, headers, cookies, from_defs=url_from_defs, exempt=exempt, auth=auth)
        digest = auth if auth is not None and auth.kind == "digest" else None
        if digest is not None:
            digest = self._authorize(sent, digest, authorization)
        if session_cookies:
            self._cookies.set_cookie_header(sent)
        if download is not None:
            sent.headers.update({"Accept": sent.headers.get("Accept", "*/*"), **download.request_headers(sent.target)})
        first = None if digest is None else self._digest_authenticator().begin(sent, digest)
        wait = _ShareWait(share, self._deadline)
        content = b""
        try:
            async with asyncio.timeout(self._deadline) as wait.deadline:
                if route is None:
                    response = await self._transport.send(sent)
                else:
                    response = await self._send_routed(sent, route)
                body, pairs = response.body, response.raw_headers
                answer, changed = None, False
                try:
                    received = {name.lower(): value for name, value in pairs}
                    if b"content-encoding" in received:
                        received[b"content-encoding"] = join_values(pairs, b"content-encoding")
                    if b"set-cookie" in received and keep_cookies:
                        values = [decode_header(value) for name, value in pairs if name.lower() == b"set-cookie"]
                        changed = self._cookies.extract_cookies(sent, values)
                    location, problem = redirect_target(response.status_code, received.get(b"location"), sent.target)
                    if digest is not None and response.status_code == UNAUTHORIZED:
                        answer = self._digest_authenticator().answer(sent, digest, pairs)
                    if download is not None:
                        elapsed = perf_counter() - start
                        named = {decode_header(name): decode_header(value) for name, value in received.items()}
                        content = await download.read(sent.target, response.status_code, named, body, wait.deadline)
                    else:
                        content = await self._read_body(
                            body,
                            response.status_code,
                            received.get(b"content-encoding"),
                            wait,
                            redirected=location is not None or answer is not None,
                            read_at_most=read_at_most,
                        )
                        elapsed = perf_counter() - start - wait.seconds
                except BaseException:
                    body.close()
                    raise
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadline:g} s", kind="timeout", retryable=True) from None
        finally:
            wait.end(kept=bool(content))
            if first is not None:
                first.set()
        content_type = received.get(b"content-type")
        return FetchResponse(
            url=urls.without_credentials(url),
            status=response.status_code,
            headers=tuple([(decode_header(name).lower(), decode_header(value)) for name, value in pairs]),
            body=content,
            received=body.received if download is None else download.received or body.received,
            elapsed=elapsed,
            content_type=decode_header(content_type) if content_type is not None else "",
            location=location,
            location_problem=problem,
            challenge_answer=answer,
            retry_after=parse_retry_after(
                join_values(pairs, b"retry-after") if b"retry-after" in received else None,
                received.get(b"date"),
            ),
            changed_cookies=changed,
            is_file=download is not None and response.status_code in FILE_STATUSES,
            file_problem=None if download is None else download.problem,
        )

    async def check_address(self, url: str, route: HostRoute | None = None) -> None:
        """Raise AddressRefused if the address guard refuses the host of a normalized URL now. Sends nothing."""
        if route is not None and route.proxies:
            self._routed().check_address(url, route)
            return
        await self._transport.check_address(url)

    async def wait_for_challenge(self, url: str, auth: HostAuth | None) -> None:
        """Wait for the first answer of a host with digest authentication: its challenge serves all requests."""
        if auth is not None and auth.kind == "digest":
            await self._digest_authenticator().wait_for_first(url, auth)

    async def aclose(self) -> None:
        await self._transport.aclose()
        if self._routed_transport is not None:
            await self._routed_transport.aclose()

    async def _send_routed(self, sent: OutgoingRequest, route: HostRoute) -> TransportResponse:
        """Send by the other transport; over http directly, if its rule changes nothing."""
        if not route.proxies and sent.target.startswith("http:"):
            return await self._transport.send(sent)
        return await self._routed().send(sent, route)

    def _routed(self) -> "RoutedTransport":
        if self._routed_transport is None:
            from engine.http.routed_transport import RoutedTransport  # few crawls need it

            self._routed_transport = RoutedTransport(
                headers=self._headers, connections=self._connections, deadline=self._deadline, resolver=self._resolver
            )
        return self._routed_transport

    def _authorize(self, sent: OutgoingRequest, auth: HostAuth, authorization: str | None) -> HostAuth | None:
        """Set the header of digest authentication. Returns the means to answer a challenge, if one may be answered."""
        if "Authorization" in sent.headers:
            return None
        if authorization is not None:
            sent.headers["Authorization"] = authorization
            return None
        self._digest_authenticator().authorize(sent, auth)
        return auth

    def _digest_authenticator(self) -> "DigestAuthenticator":
        if self._digest is None:
            from engine.http.digest import DigestAuthenticator

            self._digest = DigestAuthenticator()
        return self._digest

    async def _read_body(
        self,
        body: LimitedBody,
        status: int,
        encoding: bytes | None,
        wait: "_ShareWait",
        *,
        redirected: bool,
        read_at_most: int | None,
    ) -> bytes:
        """The body, decompressed; empty for a redirect, and for a challenge that is answered.

        For an error status a failure to read it leaves it empty: the status matters more.
        """
        try:
            if redirected:
                await body.read(_MAX_DRAINED_BODY, hold=wait.hold)
                return b""
            if read_at_most is not None and status < 300:
                start = await body.read_start(read_at_most)
                return start if encoding is None else decompress_start(start, decode_header(encoding), read_at_most)
            decompressor = None if encoding is None else open_decompressor(decode_header(encoding), self._max_body)
            return await body.read(self._max_body, decompressor=decompressor, hold=wait.hold)
        except FetchFailed:
            if redirected or status >= 400:
                body.close()
                return b""
            raise


class _ShareWait:
    """Grows the share of one response's body; stops its deadline while it waits for room."""

    __slots__ = ("_longest", "_share", "deadline", "seconds")

    def __init__(self, share: BodyShare | None, longest: float) -> None:
        """`longest`: seconds that one response waits for room in all."""
        self._share = share
        self._longest = longest
        self.deadline: asyncio.Timeout
        self.seconds = 0.0
        """Time waited."""

    async def hold(self, count: int) -> None:
        """Hold further bytes; wait until there is room for them. Raises NoRoom if that takes too long.

        A waiting body keeps its bytes, and so keeps others waiting.
        """
        share = self._share
        if share is None or share.try_grow(count):
            return
        loop = asyncio.get_running_loop()
        start, ends_at = loop.time(), self.deadline.when()
        assert ends_at is not None
        self.deadline.reschedule(None)
        try:
            async with asyncio.timeout(self._longest - self.seconds):
                await share.grow(count)
        except TimeoutError:
            raise NoRoom from None
        waited = loop.time() - start
        self.seconds += waited
        self.deadline.reschedule(ends_at + waited)

    def end(self, *, kept: bool) -> None:
        """Note that the body is complete, or, unless it is kept, that it was dropped."""
        if self._share is None:
            return
        if kept:
            self._share.finish_reading()
        else:
            self._share.release()
