"""The wire over aiohttp, for plain hosts: exact URLs, guarded addresses, errors to retry."""

import re
import ssl
from collections.abc import Mapping

import aiohttp
import httpx
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.tracing import Trace
from yarl import URL

from engine.http.address_guard import find_guarded_address, open_guarded_socket
from engine.http.errors import FetchFailed, describe_os_error, invalid_certificate, tls_failure, unresolved_host
from engine.http.exchange import OutgoingRequest, WireBody, WireResponse
from engine.http.transports.guard import Resolvers
from engine.http.transports.tls import TlsContexts

_MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header line; policies and cookies of real sites exceed aiohttp's 8 KB."""
_MAX_HEADERS = 512
_MAX_INTERIM_RESPONSES = 100
"""Servers send one or two, or a sign of life every few seconds."""
_READ_BUFFER_BYTES = 64 * 1024
"""Unread bytes of one response; twice as many pause its connection."""
_DNS_CACHE_SECONDS = 60
"""Seconds to cache a resolved name."""
_QUOTED_BYTES = re.compile(r"\s*(?:bytearray\()?b(['\"]).*", re.DOTALL)
"""aiohttp's quotes of a response, which may repeat the request."""


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


class AiohttpWire(httpx.AsyncBaseTransport):
    """Two connection pools, for http and https: one for public addresses only, and one for exempt hosts.

    A connection to a guarded address is thus never used for another host, nor for one that is no longer exempt.
    Creates each session on first use, inside the event loop.
    """

    def __init__(
        self, *, headers: Mapping[str, str], connections: int, resolvers: Resolvers, tls: ssl.SSLContext | None = None
    ) -> None:
        self._headers = headers
        self._connections = connections
        self._resolvers = resolvers
        self._tls = tls
        self._tls_contexts = TlsContexts()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """By exemption."""

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises `FetchFailed`, `GuardedAddress`."""
        assert isinstance(request, OutgoingRequest)
        # `encoded`: without it yarl re-quotes the URL, which changes signed or double-encoded ones.
        url = URL(request.target, encoded=True)
        try:
            received = await self._session(exempt=request.terms.exempt).request(
                request.method,
                url,
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                ssl=self._tls_context() if url.scheme == "https" else True,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            guarded = find_guarded_address(error)
            if guarded is not None:
                raise guarded from error
            raise _to_fetch_failed(error) from error
        return WireResponse(received.status, received.raw_headers, AiohttpBody(received), request)

    async def aclose(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _session(self, *, exempt: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(exempt)
        if session is None:
            session = self._sessions[exempt] = self._create_session(exempt=exempt)
        return session

    def _tls_context(self) -> ssl.SSLContext:
        """That of this transport: the contexts that aiohttp makes at its import may lack certificates."""
        return self._tls if self._tls is not None else self._tls_contexts.find(None, http2=False)

    def _create_session(self, *, exempt: bool) -> aiohttp.ClientSession:
        connector = CheckedConnector(
            limit=self._connections,
            ttl_dns_cache=_DNS_CACHE_SECONDS,
            resolver=self._resolvers.find(exempt=exempt),
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


class AiohttpBody(WireBody):
    __slots__ = ("_response", "declared", "received")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.declared = response.content_length
        self.received = 0

    async def read_piece(self, size: int) -> bytes:
        try:
            piece = await self._response.content.read(size)
        except (aiohttp.ClientError, OSError) as error:
            raise _to_fetch_failed(error) from error
        self.received += len(piece)
        return piece

    @property
    def at_end(self) -> bool:
        return self._response.content.at_eof()

    def close(self) -> None:
        self._response.close()


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
