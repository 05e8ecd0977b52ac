"""The transport over httpcore, for hosts with a proxy, TLS settings or HTTP/2: the same limits as the one over aiohttp.

It is imported, with httpcore and h2, at the first request that needs it.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial

import httpcore
from aiohttp.abc import AbstractResolver
from yarl import URL

from engine import urls
from engine.http.address_guard import literal_address
from engine.http.connector import PROXY_REFUSES, ConnectionKey, Connector, OpenConnection, describe_refusal
from engine.http.dialer import Dialer
from engine.http.errors import FetchFailed, ProxiedNameRefused
from engine.http.failures import refuse_guarded_literal, to_refusal
from engine.http.guarded_connector import GuardedAddress
from engine.http.httpcore_failures import to_fetch_failed
from engine.http.proxies import Proxy, ProxyFailed, ProxyRotation, read_proxy
from engine.http.request import OutgoingRequest
from engine.http.stream_body import StreamBody
from engine.http.tls_contexts import TlsContexts
from engine.http.transport import TransportResponse
from engine.model.host import HostRoute

_IDLE_SECONDS = 15.0
"""For which an idle connection is kept, as in the other transport."""
_ALERT_SECONDS = 1.0
_MAX_HEADERS = 512
_MAX_ROUTES = 1000
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose requests say nothing of a body that they lack."""


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
        """Close all connections."""
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
        """What a server says that does not accept our certificate, or misses one; None: it says nothing.

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
    with contextlib.suppress(Exception):  # whatever state a hostile server left it in
        await connection.http.aclose()
    await connection.stream.aclose()
