"""The wire over httpcore's pools, for hosts with a proxy, TLS settings or HTTP/2.

It is imported, with httpcore and h2, at the first request that needs it.
"""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import httpcore
import httpx
from h2.exceptions import H2Error

from crawl_engine import urls
from crawl_engine.errors import one_line
from crawl_engine.http.address_guard import GuardedAddress
from crawl_engine.http.errors import (
    FetchFailed,
    HandshakeEnded,
    NoFileLeft,
    StaleConnection,
    describe_os_error,
    handshake_ended,
    invalid_certificate,
    tls_failure,
    unresolved_host,
)
from crawl_engine.http.exchange import OutgoingRequest, WireBody, WireResponse
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.guarded_backend import GuardedBackend, GuardedStream, ProxyBackend
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.http.transports.proxies import (
    PROXY_REFUSES,
    Proxy,
    ProxyFailed,
    ProxyRotation,
    read_proxy,
    tunnel_failure,
)
from crawl_engine.http.transports.socks import SocksBackend
from crawl_engine.http.transports.tls import TlsContexts
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.runtime.task_set import TaskSet

_ALERT_SECONDS = 1.0
_MAX_PROXY_SECONDS = 10.0
_MAX_HEADERS = 512
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose requests say nothing of a body that they lack."""
_NO_TLS_FAILURES = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLZeroReturnError, ssl.SSLEOFError)
"""They say that the connection needs more bytes, or has ended."""
_BODY_CUT = "peer closed connection"
_PIECES_BETWEEN_PAUSES = 256
"""After so many pieces other tasks run: a read may hold thousands of small ones."""
_HEAD_ENDS, _LAST_CHUNK = (b"\r\n\r\n", b"\n\n"), b"0\r\n\r\n"
_FINAL_HEADS = re.compile(rb"^HTTP/\S+ [2-9]", re.MULTILINE)
_NO_CONTENT = 204


class WireKey(NamedTuple):
    """What a connection is for: it serves no request with another key."""

    scheme: str
    host: str
    """As in a normalized URL."""
    port: int | None
    """As in a normalized URL."""
    tls: TlsRule | None
    http2: bool
    exempt: bool
    proxy: Proxy | None

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the requests: those over http, which have no tunnel of an HTTP proxy."""
        return self.proxy is not None and self.scheme == "http" and not self.proxy.is_socks


class Wire:
    """A pool of one connection: a request that ends early closes no other request's."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, backend: GuardedBackend, closing: TaskSet) -> None:
        """`closing`: the tasks that close wires."""
        self.pool = pool
        self.backend = backend
        self._closing = closing
        self.idle_since = 0.0

    def can_serve(self) -> bool:
        """As in `KeptConnection`."""
        return not any(one.is_closed() or one.has_expired() for one in self.pool.connections)

    def close(self) -> None:
        """Close in a task of its own: whoever ends a request early may be cancelled."""
        self._closing.start(self._close())

    async def _close(self) -> None:
        with contextlib.suppress(Exception):  # a hostile server may have left it in any state
            await self.pool.aclose()


class HttpcoreWire(httpx.AsyncBaseTransport):
    """Up to `connections` are in use. Use it from one event loop."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        deadline: float,
        idle: IdleConnections,
        resolvers: Resolvers,
    ) -> None:
        """`headers`: of every request. `deadline`: seconds for a whole request, which the caller keeps.

        A proxy that has not served after a third of it has failed.
        """
        self._headers = {name.lower(): (name.encode(), value.encode()) for name, value in headers.items()}
        self._proxy_seconds = min(_MAX_PROXY_SECONDS, deadline / 3)
        self._resolvers = resolvers
        self._contexts = TlsContexts()
        self._rotation = ProxyRotation()
        self._slots = asyncio.Semaphore(connections)
        self._idle = idle
        self._closing = TaskSet()

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises `FetchFailed`, `GuardedAddress`, `NoFileLeft`; cancelling it closes its connection."""
        assert isinstance(request, OutgoingRequest)
        route = request.terms.route or HostRoute()
        if not route.proxies:
            return await self._exchange(request, _key_of(request, route, None))
        proxies = tuple(map(read_proxy, route.proxies))
        for proxy, chosen_at in self._rotation.candidates(proxies):
            try:
                response = await self._exchange(request, _key_of(request, route, proxy))
            except ProxyFailed as failed:
                self._rotation.mark_failed(proxy, chosen_at, str(failed))
                continue
            self._rotation.mark_served(proxy)
            return response
        raise self._rotation.failure(proxies)

    async def aclose(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing, timeout=1.0)

    async def _exchange(self, request: OutgoingRequest, key: WireKey) -> WireResponse:
        """Send the request and read the head of its response. Raises FetchFailed, ProxyFailed."""
        await self._slots.acquire()
        wire = kept = None if request.is_repeated else self._idle.take(key)
        may_repeat = kept is not None and request.is_idempotent
        try:
            if wire is None:
                wire = self._open(key)
            async with asyncio.timeout(None) as limit:
                wire.backend.limit = limit
                response = await wire.pool.handle_async_request(self._build(request, key))
            if key.is_forwarded and response.status == PROXY_REFUSES:
                raise ProxyFailed.by_status(response.status)
            if len(response.headers) > _MAX_HEADERS:
                text = f"invalid HTTP response: more than {_MAX_HEADERS} headers"
                raise FetchFailed(text, kind="protocol", retryable=False)
        except BaseException as error:
            self._slots.release()
            if wire is not None:
                wire.close()
            if isinstance(error, ProxyFailed | GuardedAddress | NoFileLeft) or not isinstance(error, Exception):
                raise
            if key.proxy is not None and wire is not None and not wire.backend.has_served:
                raise self._to_proxy_failure(error, key, key.proxy) from error
            failure = to_fetch_failed(error, host=key.host)
            if may_repeat and failure.kind in ("connection", "protocol"):
                raise _to_stale(failure) from error
            if failure.kind == "connection" and wire is not None and kept is None and key.tls is not None:
                failure = await self._find_alert(key) or failure
            if failure.kind == "protocol" and key.is_forwarded:
                # not sent again at once, as it may have reached the host: the next attempt has another proxy
                failure = FetchFailed(f"{failure.reason}, by proxy {key.proxy}", kind="proxy", retryable=True)
            raise failure from error
        body = HttpcoreBody(response, partial(self._take_back, key, wire), key.host, may_repeat=may_repeat)
        return WireResponse(response.status, tuple(response.headers), body, request)

    def _to_proxy_failure(self, error: Exception, key: WireKey, proxy: Proxy) -> Exception:
        """What became of a connection for which the proxy has not served."""
        if isinstance(error, TimeoutError):
            return ProxyFailed(f"no answer in {self._proxy_seconds:g} s")
        if isinstance(error, httpcore.ProxyError):
            return tunnel_failure(proxy, f"{key.host}:{key.port or 443}", int(str(error).partition(" ")[0]))
        if isinstance(error, httpcore.NetworkError | httpcore.ProtocolError):
            return ProxyFailed("no valid answer to CONNECT")
        return to_fetch_failed(error, host=key.host)

    def _open(self, key: WireKey) -> Wire:
        """A pool for requests with this key. Raises FetchFailed if a file of its TLS rule cannot be used."""
        tls = self._contexts.find(key.tls, http2=key.http2) if key.scheme == "https" else None
        backend = self._create_backend(key)
        if key.proxy is None or key.proxy.is_socks:
            pool = httpcore.AsyncConnectionPool(tls, max_connections=1, http2=key.http2, network_backend=backend)
        else:
            headers = [self._headers["user-agent"]] if "user-agent" in self._headers else []
            if key.proxy.authorization:
                headers.append((b"Proxy-Authorization", key.proxy.authorization.encode()))
            pool = httpcore.AsyncHTTPProxy(
                httpcore.URL(scheme=b"http", host=key.proxy.host.encode(), port=key.proxy.port, target=b"/"),
                proxy_headers=headers, ssl_context=tls, max_connections=1, http2=key.http2, network_backend=backend,
            )  # fmt: skip
        return Wire(pool, backend, self._closing)

    def _create_backend(self, key: WireKey) -> GuardedBackend:
        if key.proxy is None:
            return GuardedBackend(self._resolvers.find(exempt=key.exempt), exempt=key.exempt)
        resolver = self._resolvers.find(exempt=True)
        if key.proxy.is_socks:
            own = self._resolvers.find(exempt=key.exempt)
            return SocksBackend(resolver, key.proxy, own, seconds=self._proxy_seconds)
        tls = self._contexts.find(None, http2=False) if key.proxy.scheme == "https" else None
        return ProxyBackend(resolver, tls, tunnels=not key.is_forwarded, seconds=self._proxy_seconds)

    def _build(self, request: OutgoingRequest, key: WireKey) -> httpcore.Request:
        """The request for httpcore, which adds no headers of its own, with the exact URL."""
        own, url = request.headers, urls.origin(request.target)
        headers = [(b"Host", url.partition("://")[2].encode())]
        headers += [pair for name, pair in self._headers.items() if name not in own]
        if request.body or request.method not in _WITHOUT_BODY:
            headers.append((b"Content-Length", str(len(request.body)).encode()))
        target = request.target[len(url) :].encode() or b"/"
        return httpcore.Request(
            request.method,
            httpcore.URL(scheme=key.scheme.encode(), host=key.host.encode(), port=key.port, target=target),
            headers=[*headers, *((name.encode(), value.encode()) for name, value in own.items())],
            content=request.body or None,
        )

    async def _find_alert(self, key: WireKey) -> FetchFailed | None:
        """What a server says that does not accept our certificate, or misses one; None without an alert.

        By TLS 1.3 it does so after the handshake, and its reset, an answer to the request, overtakes the alert.
        """
        if key.proxy is not None:
            return None
        try:
            async with asyncio.timeout(_ALERT_SECONDS):
                stream = await self._create_backend(key).connect_tcp(key.host, key.port or 443)
                try:
                    await (await stream.start_tls(self._contexts.find(key.tls, http2=key.http2), key.host)).read(1)
                finally:
                    await stream.aclose()
        except Exception as error:
            failure = to_fetch_failed(error, host=key.host)
            return failure if failure.kind == "tls" else None
        return None

    def _take_back(self, key: WireKey, wire: Wire, is_usable: bool) -> None:
        """Take back a connection, whose response is complete if it is of further use."""
        self._slots.release()
        if is_usable:
            self._idle.keep(key, wire)
        else:
            wire.close()


def _key_of(request: OutgoingRequest, route: HostRoute, proxy: Proxy | None) -> WireKey:
    host = urls.host_of(request.target)
    scheme, _, authority = urls.origin(request.target).partition("://")
    port = int(authority[len(host) + 1 :] or 0) or None
    return WireKey(scheme, host, port, route.tls, route.http2, request.terms.exempt, proxy)


def _to_stale(failure: FetchFailed) -> StaleConnection:
    return StaleConnection(failure.reason, kind=failure.kind, retryable=failure.retryable)


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
        if isinstance(cause, socket.gaierror):
            return unresolved_host(host, cause)
        if isinstance(cause, HandshakeEnded):
            return handshake_ended()
    ended = _describe_end(chain, in_body=in_body)
    if ended is not None:
        return FetchFailed(ended, kind="connection", retryable=True)
    detail = error.args[0] if error.args else None
    text = "it cannot be read"
    if isinstance(detail, H2Error):
        text = "a violation of HTTP/2"
    elif isinstance(error, httpcore.RemoteProtocolError):
        text = one_line(str(detail).partition("(")[0].partition(":")[0])
    return FetchFailed(f"invalid HTTP response: {text}", kind="protocol", retryable=False)


def _describe_end(chain: list[BaseException], *, in_body: bool) -> str | None:
    """How the connection ended, if a further attempt may help; None: the response itself is wrong."""
    lost = "connection lost while reading the body" if in_body else None
    for cause in chain:
        detail = cause.args[0] if cause.args else None
        if isinstance(cause, httpcore.RemoteProtocolError):
            if not isinstance(detail, Exception) and hasattr(detail, "error_code"):  # an event of HTTP/2
                return "the server ended the stream"
            if str(detail).startswith(("Server disconnected", _BODY_CUT)):
                return lost or "connection closed before a response"
        if isinstance(cause, ssl.SSLEOFError):
            return lost or "connection closed before a response"
        if isinstance(cause, OSError) and cause.errno is not None:
            return lost or describe_os_error(cause.errno)
    if isinstance(chain[0], httpcore.NetworkError | httpcore.ConnectionNotAvailable | OSError):
        return lost or "connection failed"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, from the outermost inwards."""
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


class HttpcoreBody(WireBody):
    """A body over HTTP/1.1 or HTTP/2."""

    def __init__(
        self, response: httpcore.Response, release: Callable[[bool], None], host: str, *, may_repeat: bool
    ) -> None:
        """`release` is called once, with whether the connection is of further use, and takes it back.

        `may_repeat`: the connection has served another request, and this one may be sent twice.
        """
        assert isinstance(response.stream, AsyncIterable)
        self._response = response
        self._pieces: AsyncIterator[bytes] = aiter(response.stream)
        self._release = release
        self._host = host
        self._may_repeat = may_repeat
        self._ended = False
        self._count = 0
        self._last_piece = b""
        self._is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in response.headers)
        length = _declared_length(response)
        self.declared = None if self._is_chunked else length
        self._may_go_on = length is not None and (self._is_chunked or response.status == _NO_CONTENT)
        """Whether another reader would find another end of it."""

    async def read_piece(self, size: int) -> bytes:  # noqa: ARG002 - pieces are as the library reads them
        piece: bytes | None = b""
        while piece == b"":
            self._count += 1
            if self._count % _PIECES_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
            try:
                piece = None if self._ended else await anext(self._pieces, None)
            except Exception as error:  # a hostile body may make the libraries raise anything
                failure = to_fetch_failed(error, host=self._host, in_body=True)
                is_stale = self._may_repeat and not self.received and failure.kind == "protocol"
                raise (_to_stale(failure) if is_stale else failure) from error
        if piece is None:
            await self._complete()
            return b""
        self.received += len(piece)
        self._last_piece = piece
        return piece

    @property
    def at_end(self) -> bool:
        return self._ended

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._release(False)

    async def _complete(self) -> None:
        if self._ended:
            return
        try:
            await self._response.aclose()
        except BaseException:
            self.close()
            raise
        self._ended = True
        stream = self._response.extensions["network_stream"]
        if self._response.extensions["http_version"] == b"HTTP/2" or not isinstance(stream, GuardedStream):
            self._release(True)
            return
        self.has_surplus = self._came_with_more(stream.last_read)
        ends_cleanly = not self._is_chunked or stream.last_read.endswith(_LAST_CHUNK)
        is_dirty = self.has_surplus or self._may_go_on or stream.has_odd_head
        self._release(bool(stream.last_read) and ends_cleanly and not is_dirty)
        if self.has_surplus and self._may_repeat and self.received == len(self._last_piece):
            raise StaleConnection("more than one response to a request", kind="protocol", retryable=False)

    def _came_with_more(self, last: bytes) -> bool:
        """Whether more was read than the response; behind chunks nobody can tell it from trailers."""
        if not last or self._is_chunked:
            return False
        if self._last_piece:
            return not last.endswith(self._last_piece)
        return not last.endswith(_HEAD_ENDS) or len(_FINAL_HEADS.findall(last)) > 1


def _declared_length(response: httpcore.Response) -> int | None:
    """The Content-Length, if it is one."""
    for name, value in response.headers:
        if name.lower() == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else None
    return None
