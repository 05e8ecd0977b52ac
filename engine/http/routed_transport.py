"""The transport over httpcore, for hosts with a proxy, TLS settings or HTTP/2.

It is imported, with httpcore and h2, at the first request that needs it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from io import BytesIO

import h2.errors
import h2.events
import h2.exceptions
import httpcore
from aiohttp.abc import AbstractResolver
from yarl import URL

from engine import urls
from engine.errors import one_line
from engine.http.address_guard import GuardedAddress, literal_address, refuse_guarded_literal, to_refusal
from engine.http.connector import PROXY_REFUSES, ConnectionKey, Connector, Dialer, OpenConnection, describe_refusal
from engine.http.decompress import Decompressor, body_too_large
from engine.http.errors import (
    FetchFailed,
    ProxiedNameRefused,
    describe_os_error,
    invalid_certificate,
    tls_failure,
    unresolved_host,
)
from engine.http.network_stream import FloodDetected, check_pieces
from engine.http.proxies import Proxy, ProxyFailed, ProxyRotation, read_proxy
from engine.http.request import OutgoingRequest
from engine.http.tls import TlsContexts
from engine.http.transport import HoldBytes, TransportResponse
from engine.model.host import HostRoute

_IDLE_SECONDS = 15.0
"""For which an idle connection is kept, as in the other transport."""
_ALERT_SECONDS = 1.0
_MAX_HEADERS = 512
_MAX_ROUTES = 1000
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose requests say nothing of a body that they lack."""
_NO_TLS_FAILURES = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLZeroReturnError, ssl.SSLEOFError)
"""They say that the connection needs more bytes, or has ended."""
_BODY_CUT = "peer closed connection"
_PIECES_BETWEEN_PAUSES = 256
"""After so many pieces other tasks run: a read may hold thousands of small ones."""


class RoutedTransport:
    """One request at a time on each connection, by HTTP/2 too: what ends early closes no other request's connection.

    Up to `connections` are in use, and as many are kept idle. Use it from one event loop.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        deadline: float,
        resolver: AbstractResolver | None = None,
    ) -> None:
        """`headers`: of every request. `deadline`: seconds for a whole request, which the caller keeps."""
        self._headers = {name.lower(): (name.encode(), value.encode()) for name, value in headers.items()}
        self._connections = connections
        self._dialer = Dialer(resolver)
        self._connector = Connector(
            self._dialer,
            user_agent=headers.get("User-Agent", ""),
            deadline=deadline,
            idle_seconds=_IDLE_SECONDS,
            contexts=TlsContexts(),
        )
        self._rotation = ProxyRotation()
        self._proxies: dict[tuple[str, ...], tuple[Proxy, ...]] = {}
        self._slots = asyncio.Semaphore(connections)
        self._idle: OrderedDict[int, OpenConnection] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, request: OutgoingRequest, route: HostRoute) -> TransportResponse:
        """Send one request. Raises `FetchFailed`, `AddressRefused`; cancelling it closes its connection."""
        url = URL(request.target, encoded=True)
        check_route(url, route, exempt=request.exempt)
        if not route.proxies:
            return await self._exchange(request, _key_of(url, request, route, None))
        proxies = self._read_proxies(route.proxies)
        for proxy, chosen_at in self._rotation.candidates(proxies):
            try:
                response = await self._exchange(request, _key_of(url, request, route, proxy))
            except ProxyFailed as failed:
                self._rotation.mark_failed(proxy, chosen_at, str(failed))
                continue
            self._rotation.mark_served(proxy)
            return response
        raise self._rotation.failure(proxies)

    def check_address(self, url: str, route: HostRoute) -> None:
        """Raise AddressRefused if the guard refuses the host of a normalized URL on a route with proxies."""
        check_route(URL(url, encoded=True), route, exempt=False)

    async def aclose(self) -> None:
        for connection in self._idle.values():
            self._close_soon(connection)
        self._idle.clear()
        if self._closing:
            await asyncio.wait(self._closing, timeout=1.0)
        await self._dialer.aclose()

    def _read_proxies(self, written: tuple[str, ...]) -> tuple[Proxy, ...]:
        proxies = self._proxies.get(written)
        if proxies is None:
            if len(self._proxies) >= _MAX_ROUTES:
                self._proxies.clear()
            proxies = self._proxies[written] = tuple(map(read_proxy, written))
        return proxies

    async def _exchange(self, request: OutgoingRequest, key: ConnectionKey) -> TransportResponse:
        """Send the request and read the head of its response. Raises FetchFailed, ProxyFailed."""
        await self._slots.acquire()
        connection = reused = self._take_idle(key)
        try:
            if connection is None:
                connection = await self._connector.open(key)
            connection.stream.meter.start_exchange()
            response = await connection.http.handle_async_request(self._build(request, connection))
            connection.stream.meter.end_head()
            if key.is_forwarded and response.status == PROXY_REFUSES:
                raise ProxyFailed(describe_refusal(response.status))
            if len(response.headers) > _MAX_HEADERS:
                raise FetchFailed(
                    f"invalid HTTP response: more than {_MAX_HEADERS} headers", kind="protocol", retryable=False
                )
        except BaseException as error:
            self._slots.release()
            if connection is not None:
                self._close_soon(connection)
            if isinstance(error, GuardedAddress):
                raise to_refusal(URL(request.target, encoded=True), error.address, error.category) from error
            if isinstance(error, ProxyFailed) or not isinstance(error, Exception):
                raise
            failure = to_fetch_failed(error, host=key.host)
            if failure.kind == "connection" and connection is not None and reused is None and key.tls is not None:
                failure = await self._find_alert(key) or failure
            if failure.kind == "protocol" and key.is_forwarded:
                # not sent again at once, as it may have reached the host: the next attempt has another proxy
                failure = FetchFailed(f"{failure.reason}, by proxy {key.proxy}", kind="proxy", retryable=True)
            raise failure from error
        body = StreamBody(
            response,
            on_complete=partial(self._keep, connection),
            on_abandoned=partial(self._abandon, connection),
            to_failure=partial(to_fetch_failed, host=key.host, in_body=True),
        )
        return TransportResponse(response.status, tuple(response.headers), body, request)

    def _build(self, request: OutgoingRequest, connection: OpenConnection) -> httpcore.Request:
        """The request for httpcore, which adds no headers of its own, with the exact URL."""
        key, origin, own = connection.key, connection.origin, request.headers
        url = urls.origin(request.target)
        headers = [(b"Host", url.partition("://")[2].encode())]
        headers += [pair for name, pair in self._headers.items() if name not in own]
        if request.body or request.method not in _WITHOUT_BODY:
            headers.append((b"Content-Length", str(len(request.body)).encode()))
        if key.is_forwarded:
            target = request.target.encode()
            if key.proxy is not None and key.proxy.authorization:
                headers.append((b"Proxy-Authorization", key.proxy.authorization.encode()))
        else:
            target = request.target[len(url) :].encode() or b"/"
        return httpcore.Request(
            request.method,
            httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target),
            headers=[*headers, *own.raw],
            content=request.body or None,
        )

    async def _find_alert(self, key: ConnectionKey) -> FetchFailed | None:
        """What a server says that does not accept our certificate, or misses one; None without an alert.

        By TLS 1.3 it does so after the handshake, and its reset, an answer to the request, overtakes the alert.
        """
        try:
            async with asyncio.timeout(_ALERT_SECONDS):
                connection = await self._connector.open(key)
                try:
                    await connection.stream.read(1)
                finally:
                    self._close_soon(connection)
        except Exception as error:
            failure = to_fetch_failed(error, host=key.host)
            return failure if failure.kind == "tls" else None
        return None

    def _take_idle(self, key: ConnectionKey) -> OpenConnection | None:
        """The idle connection with this key that was used last; closes those that cannot be used any more."""
        for number, connection in reversed(self._idle.items()):
            if connection.key == key:
                del self._idle[number]
                if connection.is_reusable:
                    return connection
                self._close_soon(connection)
                return self._take_idle(key)
        return None

    def _keep(self, connection: OpenConnection) -> None:
        """Take back a connection whose response is complete."""
        self._slots.release()
        if not connection.http.is_idle():
            self._close_soon(connection)
            return
        self._idle[id(connection)] = connection
        while self._idle:  # the oldest first: those behind it expire later
            number, oldest = next(iter(self._idle.items()))
            if len(self._idle) <= self._connections and not oldest.http.has_expired():
                break
            del self._idle[number]
            self._close_soon(oldest)

    def _abandon(self, connection: OpenConnection) -> None:
        """Take back a connection whose response is not read to its end."""
        self._slots.release()
        self._close_soon(connection)

    def _close_soon(self, connection: OpenConnection) -> None:
        """Close in a task of its own: whoever ends a request early may be cancelled."""
        closing = asyncio.ensure_future(_close(connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def check_route(url: URL, route: HostRoute, *, exempt: bool) -> None:
    """Raise AddressRefused if the route may not lead to a host that is not exempt. Resolves no name.

    A proxy resolves names, so that no guard sees their addresses: only literals can be checked.
    """
    if exempt:
        return
    refuse_guarded_literal(url)
    host = url.host_subcomponent or ""
    if route.proxies and literal_address(host) is None:
        raise ProxiedNameRefused(host, url.port or 0)


def _key_of(url: URL, request: OutgoingRequest, route: HostRoute, proxy: Proxy | None) -> ConnectionKey:
    host = url.host_subcomponent or ""
    return ConnectionKey(url.scheme, host, url.port or 0, route.tls, route.http2, request.exempt, proxy)


async def _close(connection: OpenConnection) -> None:
    with contextlib.suppress(Exception):  # a hostile server may have left it in any state
        await connection.http.aclose()
    await connection.stream.aclose()


def to_fetch_failed(error: Exception, *, host: str, in_body: bool = False) -> FetchFailed:
    """The failure. `in_body`: it came while the body was read. Never quotes the URL or the server's answer."""
    if isinstance(error, FetchFailed):
        return error
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, ssl.CertificateError):
            return invalid_certificate(cause)
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _NO_TLS_FAILURES):
            return tls_failure(cause)
        if isinstance(cause, FloodDetected):
            return FetchFailed(f"invalid HTTP response: {cause}", kind="protocol", retryable=False)
        if isinstance(cause, socket.gaierror):
            return unresolved_host(host, cause)
    ended = _describe_end(chain, in_body=in_body)
    if ended is not None:
        return FetchFailed(ended, kind="connection", retryable=True)
    return FetchFailed(f"invalid HTTP response: {_describe_protocol(chain)}", kind="protocol", retryable=False)


def _describe_end(chain: list[BaseException], *, in_body: bool) -> str | None:
    """How the connection ended, if a further attempt may help; None: the response itself is wrong."""
    lost = "connection lost while reading the body" if in_body else None
    for cause in chain:
        detail = cause.args[0] if cause.args else None
        if isinstance(cause, h2.exceptions.TooManyStreamsError):
            return "the server accepts no further stream"
        if isinstance(detail, h2.events.StreamReset):
            return f"the server reset the stream ({_error_name(detail.error_code)})"
        if isinstance(detail, h2.events.ConnectionTerminated):
            return f"the server closed the connection ({_error_name(detail.error_code)})"
        if isinstance(cause, httpcore.RemoteProtocolError):
            text = str(detail)
            if text.startswith(("Server disconnected", _BODY_CUT)):
                return lost or "connection closed before a response"
        if isinstance(cause, OSError) and cause.errno is not None:
            return lost or describe_os_error(cause.errno)
    if isinstance(chain[0], httpcore.NetworkError | httpcore.ConnectionNotAvailable | OSError):
        return lost or "connection failed"
    return None


def _describe_protocol(chain: list[BaseException]) -> str:
    for cause in chain:
        detail = cause.args[0] if cause.args else None
        if isinstance(cause, h2.exceptions.H2Error) or isinstance(detail, h2.exceptions.H2Error):
            return "a violation of HTTP/2"
        if isinstance(cause, httpcore.RemoteProtocolError):
            return one_line(str(detail).partition("(")[0].partition(":")[0])
    return "it cannot be read"


def _error_name(code: object) -> str:
    try:
        return h2.errors.ErrorCodes(code).name  # type: ignore[arg-type]
    except ValueError:
        return f"error {code}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, from the outermost inwards."""
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


class StreamBody:
    """A `LimitedBody` of a response of httpcore."""

    def __init__(
        self,
        response: httpcore.Response,
        *,
        on_complete: Callable[[], None],
        on_abandoned: Callable[[], None],
        to_failure: Callable[[Exception], Exception],
    ) -> None:
        """`on_complete` or `on_abandoned` is called once, and takes the connection back."""
        assert isinstance(response.stream, AsyncIterable)
        self._response = response
        self._pieces: AsyncIterator[bytes] = aiter(response.stream)
        self._on_complete = on_complete
        self._on_abandoned = on_abandoned
        self._to_failure = to_failure
        self._ended = False
        self._count = 0
        self.received = 0
        """Bytes read, as sent."""

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept. Raises `FetchFailed` if the body is truncated, cannot be
        decompressed, or exceeds `limit` bytes, as sent or decompressed; the caller then closes it.
        """
        declared = _declared_length(self._response)
        if declared is not None and declared > limit:
            raise body_too_large(limit)
        body = BytesIO()
        while (piece := await self._next_piece(limit)) is not None:
            if decompressor is None:
                await hold(len(piece))
                body.write(piece)
                continue
            for part in decompressor.feed(piece):
                await hold(len(part))
                body.write(part)
        if decompressor is not None and self.received:
            for part in decompressor.finish():
                await hold(len(part))
                body.write(part)
        await self._complete()
        return body.getvalue()

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""
        body = BytesIO()
        while self.received < limit:
            piece = await self._next_piece(None)
            if piece is None:
                await self._complete()
                break
            body.write(piece)
        self.close()
        return body.getvalue()[:limit]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file. Raises `FetchFailed`."""
        while (piece := await self._next_piece(None)) is not None:
            if piece:
                yield piece
        await self._complete()

    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""
        if not self._ended:
            self._ended = True
            self._on_abandoned()

    async def _next_piece(self, limit: int | None) -> bytes | None:
        """The next bytes as sent, possibly empty; None at the end."""
        self._count += 1
        if self._count % _PIECES_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        try:
            piece = await anext(self._pieces, None)
            check_pieces(self._count, self.received)
        except Exception as error:  # a hostile body may make the libraries raise anything
            raise self._to_failure(error) from error
        self.received += len(piece or b"")
        if limit is not None and self.received > limit:
            raise body_too_large(limit)
        return piece

    async def _complete(self) -> None:
        try:
            await self._response.aclose()
        except BaseException:
            self.close()
            raise
        self._ended = True
        self._on_complete()


def _declared_length(response: httpcore.Response) -> int | None:
    """The Content-Length, if it is one."""
    for name, value in response.headers:
        if name.lower() == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else None
    return None
