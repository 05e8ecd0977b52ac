"""The transport over aiohttp: exact URLs, guarded addresses, limited bodies, errors to retry."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from io import BytesIO
from typing import Protocol

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.tracing import Trace
from yarl import URL

from engine.http.address_guard import (
    GuardedAddress,
    GuardedResolver,
    find_guarded_address,
    open_guarded_socket,
    refuse_guarded_literal,
    to_refusal,
)
from engine.http.decompress import Decompressor, body_too_large
from engine.http.errors import (
    FetchFailed,
    describe_os_error,
    invalid_certificate,
    tls_failure,
    unresolved_host,
)
from engine.http.request import OutgoingRequest
from engine.http.tls import TlsContexts

HoldBytes = Callable[[int], Awaitable[None]]
"""Waits until that many further bytes may be kept in memory."""
_MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header line; policies and cookies of real sites exceed aiohttp's 8 KB."""
_MAX_HEADERS = 512
_MAX_INTERIM_RESPONSES = 100
"""Servers send one or two, or a sign of life every few seconds."""
_READ_BUFFER_BYTES = 64 * 1024
"""Unread bytes of one response; twice as many pause its connection."""
_PIECE_BYTES = 64 * 1024
"""Bytes of a body that are held, then read, in one piece."""
_DNS_CACHE_SECONDS = 60
"""Seconds to cache a resolved name."""
_QUOTED_BYTES = re.compile(r"\s*(?:bytearray\()?b(['\"]).*", re.DOTALL)
"""aiohttp's quotes of a response, which may repeat the request."""


class LimitedBody(Protocol):
    """The body of a response, as sent."""

    received: int
    """Bytes read, as sent."""

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept. Raises `FetchFailed` if the body is truncated, cannot be
        decompressed, or exceeds `limit` bytes, as sent or decompressed; then stops reading.
        """

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file."""

    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""


class Download(Protocol):
    """The additional headers of a request for a file, and the reader of its answer."""

    received: int
    """Bytes of the body, as sent."""
    problem: str | None
    """Why the answer is not the file; the rest of it is not read."""

    def request_headers(self, url: str) -> dict[str, str]:
        """The headers to add to the request to this URL."""

    async def read(
        self, url: str, status: int, headers: Mapping[str, str], body: LimitedBody, limit: asyncio.Timeout
    ) -> bytes:
        """Read a response of any status; returns the beginning of its content. `headers`: names in lower case."""


class CheckedConnector(aiohttp.TCPConnector):
    """Gives out no connection to which a response was sent while it was idle: it would be taken for the next one."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        while connection.protocol is not None and connection.protocol.should_close:
            connection.close()
            connection = await super().connect(req, traces, timeout)
        return connection


class TransportResponse(httpx.Response):
    """A response whose body is read by a `LimitedBody`.

    It sets the public attributes itself, as `OutgoingRequest` does: few responses need more than these.
    """

    def __init__(
        self, status: int, raw_headers: tuple[tuple[bytes, bytes], ...], body: LimitedBody, request: OutgoingRequest
    ) -> None:
        self.status_code = status
        self.raw_headers = raw_headers
        """Names and values as received, in order."""
        self.body = body
        self.request = request

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]  # an attribute there
        """The headers as httpx reads them, for cookies."""
        return httpx.Headers(list(self.raw_headers))


class Transport:
    """Two connection pools, for http and https: one for public addresses only, and one for exempt hosts.

    A connection to a guarded address is thus never used for another host, nor for one that is no longer exempt.
    Creates each session on first use, inside the event loop.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._headers = headers
        self._connections = connections
        self._resolver = resolver
        self._tls = tls
        self._tls_contexts = TlsContexts()
        self._guarded_session: aiohttp.ClientSession | None = None
        self._exempt_session: aiohttp.ClientSession | None = None
        self._own_resolver: AbstractResolver | None = None
        self._guarded_resolver: GuardedResolver | None = None

    async def send(self, request: OutgoingRequest) -> TransportResponse:
        """Send one request. Raises `FetchFailed`."""
        # `encoded`: without it yarl re-quotes the URL, which changes signed or double-encoded ones.
        url = URL(request.target, encoded=True)
        if not request.exempt:
            refuse_guarded_literal(url)
        try:
            received = await self._session(exempt=request.exempt).request(
                request.method,
                url,
                headers=[(name.decode(), value.decode()) for name, value in request.headers.raw] or None,
                data=request.body or None,
                allow_redirects=False,
                ssl=self._tls_context() if url.scheme == "https" else True,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            guarded = find_guarded_address(error)
            if guarded is not None:
                raise to_refusal(url, guarded.address, guarded.category) from error
            raise _to_fetch_failed(error) from error
        return TransportResponse(received.status, received.raw_headers, ResponseBody(received), request)

    async def check_address(self, url: str) -> None:
        """Raise AddressRefused if the address guard refuses the host of a normalized URL now. Connects to nothing."""
        parsed = URL(url, encoded=True)
        refuse_guarded_literal(parsed)
        self._session(exempt=False)  # which creates the resolver
        assert self._guarded_resolver is not None
        try:
            await self._guarded_resolver.resolve(parsed.host or "", parsed.port or 0, socket.AF_UNSPEC)
        except GuardedAddress as guarded:
            raise to_refusal(parsed, guarded.address, guarded.category) from guarded
        except (OSError, UnicodeError):
            return  # names that cannot resolve pass the guard; the connection fails

    async def aclose(self) -> None:
        for session in (self._guarded_session, self._exempt_session):
            if session is not None:
                await session.close()
        if self._own_resolver is not None:
            await self._own_resolver.close()

    def _session(self, *, exempt: bool) -> aiohttp.ClientSession:
        if exempt:
            if self._exempt_session is None:
                self._exempt_session = self._create_session(exempt=True)
            return self._exempt_session
        if self._guarded_session is None:
            self._guarded_session = self._create_session(exempt=False)
        return self._guarded_session

    def _tls_context(self) -> ssl.SSLContext:
        """That of this transport: the contexts that aiohttp makes at its import may lack certificates."""
        return self._tls if self._tls is not None else self._tls_contexts.find(None, http2=False)

    def _create_session(self, *, exempt: bool) -> aiohttp.ClientSession:
        resolver = self._resolver
        if not exempt:
            if resolver is None:
                resolver = self._own_resolver = aiohttp.DefaultResolver()
            resolver = self._guarded_resolver = GuardedResolver(resolver)
        connector = CheckedConnector(
            limit=self._connections,
            ttl_dns_cache=_DNS_CACHE_SECONDS,
            resolver=resolver,
            socket_factory=None if exempt else open_guarded_socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            response_class=_FinalResponse,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )
        # Send each request once: retries are scheduled and counted by the lease. aiohttp has no public option for
        # this, so pyproject.toml bounds its version, and a test counts the requests.
        session._retry_connection = False
        return session


class _FinalResponse(aiohttp.ClientResponse):
    """A response after a bounded number of interim ones (1xx).

    aiohttp skips them without letting other tasks run, and keeps all that it has read.
    """

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head. Raises `aiohttp.ClientResponseError`, also after too many interim responses."""
        protocol = connection.protocol
        assert protocol is not None
        read, left = protocol.read, _MAX_INTERIM_RESPONSES + 1

        async def read_limited() -> tuple[RawResponseMessage, aiohttp.StreamReader]:
            nonlocal left
            left -= 1
            if left < 0:
                raise aiohttp.ClientResponseError(
                    self.request_info, (), message=f"more than {_MAX_INTERIM_RESPONSES} interim responses"
                )
            return await read()

        protocol.read = read_limited  # type: ignore[method-assign]
        try:
            return await super().start(connection)
        finally:
            del protocol.read


class ResponseBody(httpx.AsyncByteStream):
    """The body of a response, as sent."""

    __slots__ = ("_response", "received")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.received = 0
        """Bytes read, as sent."""

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept, except for a body of one piece; meanwhile full buffers stop the server.
        Raises `FetchFailed` if the body is truncated, cannot be decompressed, or exceeds `limit` bytes, as sent or
        decompressed; then stops reading.
        """
        declared = self._response.content_length
        if declared is not None and declared > limit:
            self.close()
            raise body_too_large(limit)
        try:
            piece = await self._read_piece(_PIECE_BYTES, limit)
            if decompressor is not None:
                return await self._read_compressed(piece, limit, decompressor, hold)
            if self._response.content.at_eof():
                return piece
            return await self._read_plain(piece, limit, hold)
        except (aiohttp.ClientError, OSError) as error:
            self.close()
            raise _to_fetch_failed(error) from error

    async def _read_plain(self, piece: bytes, limit: int, hold: HoldBytes) -> bytes:
        body = BytesIO()  # gives its bytes out without a copy
        held = _PIECE_BYTES
        await hold(held)
        while piece:
            body.write(piece)
            # Held before it is read: waiting bytes stay in the buffers, so that the server waits, too.
            if self.received == held and not self._response.content.at_eof():
                held += _PIECE_BYTES
                await hold(_PIECE_BYTES)
            piece = await self._read_piece(held - self.received, limit)
        return body.getvalue()

    async def _read_compressed(self, piece: bytes, limit: int, decompressor: Decompressor, hold: HoldBytes) -> bytes:
        body = BytesIO()
        while piece:
            for part in decompressor.feed(piece):
                await hold(len(part))
                body.write(part)
            piece = await self._read_piece(_PIECE_BYTES, limit)
        for part in decompressor.finish() if self.received else ():
            await hold(len(part))
            body.write(part)
        return body.getvalue()

    async def _read_piece(self, size: int, limit: int) -> bytes:
        """Up to `size` bytes as sent; empty at the end."""
        piece = await self._response.content.read(size)
        self.received += len(piece)
        if self.received > limit:
            self.close()
            raise body_too_large(limit)
        return piece

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""
        parts = list[bytes]()
        try:
            while self.received < limit and (part := await self._response.content.readany()):
                parts.append(part)
                self.received += len(part)
        except (aiohttp.ClientError, OSError) as error:
            raise _to_fetch_failed(error) from error
        finally:
            if not self._response.content.at_eof():
                self.close()
        return b"".join(parts)[:limit]

    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""
        self._response.close()

    async def aclose(self) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file. Raises `FetchFailed`."""
        pieces = aiter(self._response.content.iter_any())
        while True:
            try:
                piece = await anext(pieces, b"")
            except (aiohttp.ClientError, OSError) as error:
                raise _to_fetch_failed(error) from error
            if not piece:
                return
            self.received += len(piece)
            yield piece


def _to_fetch_failed(error: Exception) -> FetchFailed:
    """The failure in one line, without the URL, which may contain a password, and without the server's text."""
    if isinstance(error, FetchFailed):
        return error
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return unresolved_host(error.host, error.os_error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return invalid_certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return tls_failure(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return FetchFailed("connection closed before a response", kind="connection", retryable=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        return FetchFailed("connection lost while reading the body", kind="connection", retryable=True)
    if isinstance(error, aiohttp.ClientResponseError):
        message = _QUOTED_BYTES.sub("", error.message).strip(" :,.")
        return FetchFailed(f"invalid HTTP response: {message}", kind="protocol", retryable=False)
    if isinstance(error, OSError):
        number = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else error.errno
        return FetchFailed(describe_os_error(number), kind="connection", retryable=True)
    if isinstance(error, ValueError):
        return FetchFailed("invalid HTTP request", kind="url", retryable=False)
    return FetchFailed("connection failed", kind="connection", retryable=True)
