"""The wire: httpx's aiohttp transport, sending the URL's very bytes, reading bounded, failing in our words."""

import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from engine.fetch.decompress import body_too_large
from engine.fetch.errors import FetchFailed
from engine.fetch.request import OutgoingRequest

_MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header line; policies and cookies of real sites pass aiohttp's 8 KB."""
_MAX_HEADERS = 512
_READ_BUFFER_BYTES = 256 * 1024
"""Bytes that may wait unread of one answer before its sender is held back."""
_DNS_CACHE_SECONDS = 60
"""Seconds a resolved name is kept."""

_DNS_NOT_FOUND = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class Transport(AiohttpTransport):
    """One connection pool for http and https. Its session is made on first use, since it needs the running loop."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        # aiohttp loads the system's trust while it is imported. The session below uses that, so the transport's own
        # context stays without any: loading a second bundle would cost 20 ms and serve nothing.
        super().__init__(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), client=self._create_session)
        self._headers = headers
        self._connections = connections
        self._resolver = resolver
        self._tls = tls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. The answer's `stream` is a `Body`. Raises `FetchFailed`."""
        if not isinstance(request, OutgoingRequest):
            return await super().handle_async_request(request)
        session = self.client
        if not isinstance(session, aiohttp.ClientSession):
            session = self.client = self.get_client()
        try:
            # `encoded`: yarl would otherwise re-quote the URL, and signed or double-encoded ones would change.
            answer = await session.request(
                request.method,
                URL(request.target, encoded=True),
                headers=request.extra_headers or None,
                data=request.content or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _to_fetch_failed(error) from error
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=ResponseBody(answer), request=request)

    def _create_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._connections,
            ttl_dns_cache=_DNS_CACHE_SECONDS,
            resolver=self._resolver,
            ssl=True if self._tls is None else self._tls,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        )
        # A request is sent once: another try waits its turn in the lease, and is counted there.
        session._retry_connection = False
        return session


class ResponseBody(httpx.AsyncByteStream):
    """The undecoded body of an answer."""

    __slots__ = ("_response",)

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._response = answer

    async def read(self, limit: int) -> bytes:
        """All of it; the connection is free for the next request then.

        Raises `FetchFailed` when it is cut short, or over `limit` bytes: nothing more is read then.
        """
        declared = self._response.content_length
        if declared is not None and declared > limit:
            self.close()
            raise body_too_large(limit)
        content = self._response.content
        try:
            first = await content.readany()
            if len(first) <= limit and content.at_eof():
                return first
            parts, size = [first], len(first)
            while part := await content.readany():
                parts.append(part)
                size += len(part)
                if size > limit:
                    break
        except (aiohttp.ClientError, OSError) as error:
            self.close()
            raise _to_fetch_failed(error) from error
        if size > limit:
            self.close()
            raise body_too_large(limit)
        return b"".join(parts)

    def close(self) -> None:
        """Give up the rest: closes the connection unless the body was read to its end."""
        self._response.close()

    async def aclose(self) -> None:
        """What httpx calls when it is done with an answer."""
        self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.content.iter_any():
            yield chunk


def _to_fetch_failed(error: Exception) -> FetchFailed:
    """What went wrong, in one line; never with a URL in it, which might hold a password."""
    if isinstance(error, FetchFailed):
        return error
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        unknown = isinstance(error.os_error, socket.gaierror) and error.os_error.errno in _DNS_NOT_FOUND
        return FetchFailed(f"cannot resolve host {error.host}", kind="dns", retryable=not unknown)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate = error.certificate_error
        detail = getattr(certificate, "verify_message", "") or str(certificate)
        return FetchFailed(f"TLS: certificate not accepted: {detail}", kind="tls", retryable=False)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        detail = getattr(error.os_error, "reason", None) or "handshake failed"
        return FetchFailed(f"TLS: {str(detail).replace('_', ' ').lower()}", kind="tls", retryable=False)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return FetchFailed("connection closed before an answer", kind="connection", retryable=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        return FetchFailed("connection lost within the body", kind="connection", retryable=True)
    if isinstance(error, aiohttp.ClientResponseError):
        return FetchFailed(f"not a valid HTTP answer: {error.message}", kind="protocol", retryable=False)
    if isinstance(error, OSError):
        return FetchFailed(_describe_os_error(error), kind="connection", retryable=True)
    if isinstance(error, ValueError):
        return FetchFailed("not a valid HTTP request", kind="url", retryable=False)
    return FetchFailed("connection failed", kind="connection", retryable=True)


def _describe_os_error(error: OSError) -> str:
    number = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else error.errno
    match number:
        case errno.ECONNREFUSED:
            return "connection refused"
        case errno.ECONNRESET | errno.EPIPE:
            return "connection reset"
        case errno.ENETUNREACH | errno.EHOSTUNREACH:
            return "host unreachable"
        case errno.ETIMEDOUT:
            return "connection timed out"
    return "connection failed"
