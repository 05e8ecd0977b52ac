"""Sends one HTTP request with limits on time and size. Never follows redirects."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

import httpx
from aiohttp.abc import AbstractResolver

from engine import urls
from engine.fetch.cookies import SessionCookies
from engine.fetch.decompress import ACCEPT_ENCODING, decompress, decompress_start
from engine.fetch.errors import FetchFailed
from engine.fetch.request import build_request
from engine.fetch.response import FetchResponse, decode_header, parse_retry_after, redirect_target
from engine.fetch.transport import ResponseBody, Transport, TransportResponse
from engine.model.job import Request
from engine.settings import Settings

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_PAIRS: Mapping[str, str] = MappingProxyType({})
_MAX_DRAINED_BODY = 64 * 1024
"""Bytes of a redirect's body to read and discard, to keep the connection. A longer body closes it."""

logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs every URL


class _Client(httpx.AsyncClient):
    """An `AsyncClient` with our cookies. Without redirects, environment settings and default headers."""

    def __init__(self, transport: Transport) -> None:
        # Credentials in a URL are already headers: the empty `auth` saves the search for them.
        super().__init__(transport=transport, auth=httpx.Auth(), timeout=None, follow_redirects=False, trust_env=False)
        self._session_cookies = SessionCookies()

    @property  # type: ignore[misc]  # read-only on purpose
    def cookies(self) -> httpx.Cookies:
        """The cookies of the crawl. The base class would copy them into a plain jar."""
        return self._session_cookies


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
    ) -> None:
        """`deadline`: seconds for a whole request. `max_body`: bytes of a body, both as sent and decompressed.

        `resolver` resolves host names, but not IP address literals. `tls` replaces the system's trust store.
        """
        self._deadline = deadline
        self._max_body = max_body
        self._client = _Client(
            Transport(
                headers={"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING},
                connections=connections,
                resolver=resolver,
                tls=tls,
            )
        )

    @classmethod
    def from_settings(cls, settings: Settings, *, connections: int) -> "Fetcher":
        """A fetcher for these settings."""
        return cls(
            user_agent=settings.full_user_agent,
            deadline=settings.deadline,
            max_body=settings.max_body,
            connections=connections,
        )

    async def send(
        self,
        url: str,
        request: Request,
        *,
        headers: Mapping[str, str] = _NO_PAIRS,
        cookies: Mapping[str, str] = _NO_PAIRS,
        url_from_defs: bool = False,
        exempt: bool = False,
        read_at_most: int | None = None,
        session_cookies: bool = True,
    ) -> FetchResponse:
        """Send one request and read its response, of any status. Does not follow redirects.

        `headers` and `cookies` are the host's; those of `request` override them. `url_from_defs`: the URL comes from
        the defs (or a redirect from such a URL), so its `%{env.NAME}` are expanded; never set it for links of a page.
        `exempt`: the host may be at a guarded address, such as one of the local network.
        `read_at_most`: bytes of the body after which to stop reading; a longer one is cut, not refused.
        `session_cookies`: whether to send the cookies that the site has set.
        Raises `FetchFailed`; `AddressRefused` (nothing was sent) if the host is not exempt and has guarded addresses
        only.
        """
        start = perf_counter()
        sent = build_request(url, request, headers, cookies, from_defs=url_from_defs, exempt=exempt)
        if session_cookies:
            self._client.cookies.set_cookie_header(sent)
        try:
            async with asyncio.timeout(self._deadline):
                response = await self._client.send(sent, stream=True)
                assert isinstance(response, TransportResponse)
                body = response.stream = response.body  # the client's own stream refers back to the response
                pairs = response.headers.raw
                received = {name.lower(): value for name, value in pairs}
                location, problem = redirect_target(response.status_code, received.get(b"location"), sent.target)
                try:
                    raw = await self._read_body(
                        body, response.status_code, redirected=location is not None, read_at_most=read_at_most
                    )
                except BaseException:
                    body.close()
                    raise
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadline:g} s", kind="timeout", retryable=True) from None
        content = self._decompress(
            b"" if location is not None else raw,
            received.get(b"content-encoding"),
            response.status_code,
            read_at_most,
        )
        content_type = received.get(b"content-type")
        return FetchResponse(
            url=urls.without_credentials(url),
            status=response.status_code,
            headers=tuple([(decode_header(name).lower(), decode_header(value)) for name, value in pairs]),
            body=content,
            received=len(raw),
            elapsed=perf_counter() - start,
            content_type=decode_header(content_type) if content_type is not None else "",
            location=location,
            location_problem=problem,
            retry_after=parse_retry_after(received.get(b"retry-after"), received.get(b"date")),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _read_body(self, body: ResponseBody, status: int, *, redirected: bool, read_at_most: int | None) -> bytes:
        """The body as sent. For an error status a failure to read it leaves it empty: the status matters more."""
        if read_at_most is not None and status < 300:
            return await body.read_start(read_at_most)
        if not redirected and status < 400:
            return await body.read(self._max_body)
        try:
            return await body.read(_MAX_DRAINED_BODY if redirected else self._max_body)
        except FetchFailed:
            return b""

    def _decompress(self, raw: bytes, encoding: bytes | None, status: int, read_at_most: int | None) -> bytes:
        if encoding is None or not raw:
            return raw
        try:
            if read_at_most is not None and status < 300:
                return decompress_start(raw, decode_header(encoding), read_at_most)
            return decompress(raw, decode_header(encoding), self._max_body)
        except FetchFailed:
            if status >= 400:
                return b""
            raise
