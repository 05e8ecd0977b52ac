"""The fetcher: one HTTP hop, bounded in time and size. Knows no jobs' states, no robots, no waits; never follows."""

import asyncio
import ssl
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

from aiohttp.abc import AbstractResolver

from engine import urls
from engine.fetch.cookies import SessionCookies
from engine.fetch.decompress import ACCEPT_ENCODING, decompress
from engine.fetch.errors import FetchFailed
from engine.fetch.request import build_request
from engine.fetch.response import FetchResponse, decode_header, parse_retry_after, redirect_target
from engine.fetch.transport import ResponseBody, Transport
from engine.model.job import Request
from engine.settings import Settings

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_PAIRS: Mapping[str, str] = MappingProxyType({})
_MAX_DRAINED_BODY = 64 * 1024
"""Bytes of a redirect's body that are read, and thrown away, to keep its connection; a longer one costs it."""


class Fetcher:
    """Sends requests, one hop each, all over one pool of connections. To be used from one event loop."""

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
        """`deadline`: seconds for all of a request. `max_body`: bytes, of a body as sent and as decoded.

        `resolver` is asked for every host name before a connection is made, but not for addresses written as such;
        `tls` replaces the system's trust.
        """
        self._deadline = deadline
        self._max_body = max_body
        self._transport = Transport(
            headers={"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING},
            connections=connections,
            resolver=resolver,
            tls=tls,
        )
        self._cookies = SessionCookies()

    @classmethod
    def from_settings(cls, settings: Settings, *, connections: int) -> "Fetcher":
        """The fetcher the settings ask for, with so many connections."""
        return cls(
            user_agent=settings.user_agent,
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
    ) -> FetchResponse:
        """Send one request and read its answer, of whatever status; a redirect is not followed.

        `headers` and `cookies` are the host's; those of `request` win. `url_from_defs`: the user wrote the URL (or it
        is a redirect from such a one), so its `%{env.NAME}` are filled in; never set it for a link found on a page.
        Raises `FetchFailed`.
        """
        begun = perf_counter()
        sent = build_request(url, request, headers, cookies, from_defs=url_from_defs)
        self._cookies.add_to(sent)
        try:
            async with asyncio.timeout(self._deadline):
                response = await self._transport.handle_async_request(sent)
                body = response.stream
                assert isinstance(body, ResponseBody)
                pairs = response.headers.raw
                found = {name.lower(): value for name, value in pairs}
                if b"set-cookie" in found:
                    self._cookies.update_from(response)
                location, problem = redirect_target(response.status_code, found.get(b"location"), url, sent.target)
                try:
                    raw = await self._read_body(body, response.status_code, redirected=location is not None)
                except BaseException:
                    body.close()
                    raise
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadline:g} s", kind="timeout", retryable=True) from None
        kept = b"" if location is not None else raw
        content = self._decompress(kept, found.get(b"content-encoding"), response.status_code)
        kind = found.get(b"content-type")
        return FetchResponse(
            url=urls.without_credentials(url),
            status=response.status_code,
            headers=tuple([(decode_header(name).lower(), decode_header(value)) for name, value in pairs]),
            body=content,
            received=len(raw),
            elapsed=perf_counter() - begun,
            content_type=decode_header(kind) if kind is not None else "",
            location=location,
            location_problem=problem,
            retry_after=parse_retry_after(found.get(b"retry-after"), found.get(b"date")),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def _read_body(self, body: ResponseBody, status: int, *, redirected: bool) -> bytes:
        """The body as sent; of an error status what there is of it, since the status is the news."""
        if not redirected and status < 400:
            return await body.read(self._max_body)
        try:
            return await body.read(_MAX_DRAINED_BODY if redirected else self._max_body)
        except FetchFailed:
            return b""

    def _decompress(self, raw: bytes, encoding: bytes | None, status: int) -> bytes:
        if encoding is None or not raw:
            return raw
        try:
            return decompress(raw, decode_header(encoding), self._max_body)
        except FetchFailed:
            if status >= 400:
                return b""
            raise
