"""Sends one HTTP request with limits on time and size. Never follows redirects.

The requests, responses and cookies are those of httpx. Its `AsyncClient` is left out: what it does besides
(authentication, redirects, hooks, settings of the environment) the crawl does not use, or does by its own rules.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

import aiohttp
from aiohttp.abc import AbstractResolver

from engine import urls
from engine.fetch.byte_budget import BodyShare, NoRoom
from engine.fetch.cookies import SessionCookies
from engine.fetch.decompress import ACCEPT_ENCODING, decompress_start, open_decompressor
from engine.fetch.errors import FetchFailed
from engine.fetch.file_download import HEAD_BYTES, FileDownload
from engine.fetch.request import OutgoingRequest, build_request
from engine.fetch.response import FetchResponse, decode_header, parse_retry_after, redirect_target
from engine.fetch.transport import ResponseBody, Transport, TransportResponse, to_fetch_failed
from engine.model.job import Request
from engine.settings import Settings

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_PAIRS: Mapping[str, str] = MappingProxyType({})
_MAX_DRAINED_BODY = 64 * 1024
"""Bytes of a redirect's body to read and discard, to keep the connection. A longer body closes it."""


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
        self._transport = Transport(
            headers={"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING},
            connections=connections,
            resolver=resolver,
            tls=tls,
        )
        self._cookies = SessionCookies()

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
        share: BodyShare | None = None,
    ) -> FetchResponse:
        """Send one request and read its response, of any status. Does not follow redirects.

        `headers` and `cookies` are the host's; those of `request` override them. `url_from_defs`: the URL comes from
        the defs (or a redirect from such a URL), so its `%{env.NAME}` are expanded; never set it for links of a page.
        `exempt`: the host may be at a guarded address, such as one of the local network.
        `read_at_most`: bytes of the body after which to stop reading; a longer one is cut, not refused.
        `session_cookies`: whether to send the cookies that the site has set.
        `share` grows with the body; the time it waits for room counts neither for the deadline nor as elapsed. It is
        released where no body is returned. Raises `NoRoom` if it waits longer than the deadline in all.
        Raises `FetchFailed`; `AddressRefused` (nothing was sent) if the host is not exempt and has guarded addresses
        only.
        """
        start = perf_counter()
        sent = build_request(url, request, headers, cookies, from_defs=url_from_defs, exempt=exempt)
        if session_cookies:
            self._cookies.set_cookie_header(sent)
        wait = _ShareWait(share, self._deadline)
        content = b""
        try:
            async with asyncio.timeout(self._deadline) as wait.deadline:
                response = await self._transport.handle_async_request(sent)
                assert isinstance(response, TransportResponse)
                body, pairs = response.body, response.raw_headers
                received = {name.lower(): value for name, value in pairs}
                if b"set-cookie" in received:
                    self._cookies.extract_cookies(response)
                location, problem = redirect_target(response.status_code, received.get(b"location"), sent.target)
                try:
                    content = await self._read_body(
                        body,
                        response.status_code,
                        received.get(b"content-encoding"),
                        wait,
                        redirected=location is not None,
                        read_at_most=read_at_most,
                    )
                except BaseException:
                    body.close()
                    raise
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadline:g} s", kind="timeout", retryable=True) from None
        finally:
            wait.end(kept=bool(content))
        content_type = received.get(b"content-type")
        return FetchResponse(
            url=urls.without_credentials(url),
            status=response.status_code,
            headers=tuple([(decode_header(name).lower(), decode_header(value)) for name, value in pairs]),
            body=content,
            received=body.received,
            elapsed=perf_counter() - start - wait.seconds,
            content_type=decode_header(content_type) if content_type is not None else "",
            location=location,
            location_problem=problem,
            retry_after=parse_retry_after(received.get(b"retry-after"), received.get(b"date")),
        )

    async def download(
        self,
        url: str,
        request: Request,
        download: FileDownload,
        *,
        headers: Mapping[str, str] = _NO_PAIRS,
        cookies: Mapping[str, str] = _NO_PAIRS,
        exempt: bool = False,
    ) -> FetchResponse:
        """As `send`, but the content of a 200 or 206 goes to the part of a file; `elapsed` is the time to its head.

        The deadline starts again with each piece of content of a certain size. Raises NoRoom, besides what `send` does.
        """
        start = perf_counter()
        sent = build_request(url, request, headers, cookies, from_defs=False, exempt=exempt)
        accept = sent.headers.get("Accept", "*/*")
        sent.headers.update({"Accept": accept, **download.request_headers(sent.target)})
        self._cookies.set_cookie_header(sent)
        try:
            async with asyncio.timeout(self._deadline) as limit:
                response = await self._transport.handle_async_request(sent)
                assert isinstance(response, TransportResponse)
                elapsed = perf_counter() - start
                with contextlib.closing(response.body):
                    return await self._receive_file(url, sent, response, download, limit, elapsed)
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadline:g} s", kind="timeout", retryable=True) from None

    async def _receive_file(
        self, url: str, sent: OutgoingRequest, response: TransportResponse, download: FileDownload,
        limit: asyncio.Timeout, elapsed: float,
    ) -> FetchResponse:  # fmt: skip
        pairs = tuple([(decode_header(name).lower(), decode_header(value)) for name, value in response.raw_headers])
        received, status, content = dict(pairs), response.status_code, b""
        if "set-cookie" in received:
            self._cookies.extract_cookies(response)
        raw = {name.lower(): value for name, value in response.raw_headers}
        location, problem = redirect_target(status, raw.get(b"location"), sent.target)
        is_file = status in (200, 206)
        if is_file:
            try:
                await download.receive(sent.target, status, received, response.body, limit)
            except (aiohttp.ClientError, OSError) as error:
                raise to_fetch_failed(error) from error
            content = download.head
        elif status == 416 and download.continues:
            await download.refuse_range()
        else:
            with contextlib.suppress(FetchFailed):
                content = await response.body.read_start(HEAD_BYTES)
        return FetchResponse(
            url=urls.without_credentials(url), status=status, headers=pairs, body=content,
            received=download.received or response.body.received, elapsed=elapsed,
            content_type=received.get("content-type", ""), location=location, location_problem=problem,
            retry_after=parse_retry_after(raw.get(b"retry-after"), raw.get(b"date")), is_file=is_file,
            file_problem=download.problem,
        )  # fmt: skip

    async def check_address(self, url: str) -> None:
        """Raise AddressRefused if the address guard refuses the host of a normalized URL now. Sends nothing."""
        await self._transport.check_address(url)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def _read_body(
        self,
        body: ResponseBody,
        status: int,
        encoding: bytes | None,
        wait: "_ShareWait",
        *,
        redirected: bool,
        read_at_most: int | None,
    ) -> bytes:
        """The body, decompressed; empty for a redirect.

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

        What waits keeps what it holds, and so keeps others waiting.
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
