"""Opens connections for httpcore: directly or through a proxy, by HTTP/1.1 or HTTP/2."""

import asyncio
import socket
import ssl
from typing import Any, NamedTuple

import aiohttp
import h2.config
import h2.connection
import h2.errors
import h2.events
import httpcore
from aiohappyeyeballs import start_connection
from aiohttp.abc import AbstractResolver

from engine.http.address_guard import GuardedResolver, literal_address, open_guarded_socket
from engine.http.errors import FetchFailed, describe_os_error, invalid_certificate, tls_failure
from engine.http.network_stream import FloodDetected, NetworkStream
from engine.http.proxies import Proxy, ProxyFailed
from engine.http.tls import TlsContexts
from engine.model.host import TlsRule
from engine.model.retry_policy import retryable_status

_NEXT_ADDRESS_SECONDS = 0.25
"""After which a further address of a name is tried beside the one before (RFC 8305)."""
_GOAWAY = h2.connection.ConnectionInputs.RECV_GOAWAY
_KEEPS_OPEN = {
    (state, _GOAWAY): (None, state)
    for state in (h2.connection.ConnectionState.IDLE, h2.connection.ConnectionState.CLIENT_OPEN)
}
_MAX_PROXY_SECONDS = 10.0
PROXY_REFUSES = 407
_PROXY_FAILURES = frozenset({PROXY_REFUSES, 502, 503})
"""Statuses of a CONNECT by which the proxy itself says that it cannot serve."""


class Dialer:
    """Connects to public addresses only, as the other transport does, and to any for exempt hosts."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._given_resolver = resolver
        self._own_resolver: AbstractResolver | None = None
        self._guarded: GuardedResolver | None = None

    async def connect(self, host: str, port: int, *, exempt: bool) -> NetworkStream:
        """A connection. `host`: a name or an address as in a normalized URL, with brackets or without.

        Raises OSError: GuardedAddress if all addresses of the host are guarded, socket.gaierror without an address.
        """
        address = literal_address(host)
        addresses = [address] if address is not None else await self._resolve(host, port, exempt=exempt)
        connected = await start_connection(
            [_to_addr_info(one, port) for one in addresses],
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=None if exempt else open_guarded_socket,
        )
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return NetworkStream.from_socket(connected)

    async def aclose(self) -> None:
        if self._own_resolver is not None:
            await self._own_resolver.close()

    async def _resolve(self, host: str, port: int, *, exempt: bool) -> list[str]:
        resolver = self._given_resolver or self._own_resolver
        if resolver is None:
            resolver = self._own_resolver = aiohttp.DefaultResolver()
        if not exempt:
            if self._guarded is None:
                self._guarded = GuardedResolver(resolver)
            resolver = self._guarded
        found = [result["host"] for result in await resolver.resolve(host, port, socket.AF_UNSPEC)]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return found


def _to_addr_info(address: str, port: int) -> Any:
    """The address as `getaddrinfo` gives it."""
    if ":" not in address:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
    bare, _, scope = address.partition("%")
    number = int(scope) if scope.isdigit() else socket.if_nametoindex(scope) if scope else 0
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (bare, port, 0, number)


class Http2Connection(httpcore.AsyncHTTP2Connection):
    """Overrides private parts of httpcore and h2: pyproject.toml bounds the versions, and tests send such frames."""

    CONFIG = h2.config.H2Configuration(validate_inbound_headers=True)
    """httpcore leaves the checks out: without a status, a response would count as 200."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # h2 reads nothing after a GOAWAY, though streams up to the last one it names are completed (RFC 9113, 6.8)
        machine = self._h2_state.state_machine
        machine._transitions = {**machine._transitions, **_KEEPS_OPEN}
        self._is_draining = False

    @property
    def accepts_requests(self) -> bool:
        """Whether the server accepts a further request: it has sent no GOAWAY, and no limit of 0 streams."""
        return not self._is_draining and self._h2_state.remote_settings.max_concurrent_streams > 0

    async def _read_incoming_data(self, request: httpcore.Request) -> list[h2.events.Event]:
        events = await super()._read_incoming_data(request)
        return [event for event in events if not self._is_graceful(event)]

    def _is_graceful(self, event: h2.events.Event) -> bool:
        """Whether the event ends the connection after the response to its request."""
        if not isinstance(event, h2.events.ConnectionTerminated) or event.error_code != h2.errors.ErrorCodes.NO_ERROR:
            return False
        self._is_draining = True
        return event.last_stream_id is None or event.last_stream_id >= self._h2_state.highest_outbound_stream_id


class ConnectionKey(NamedTuple):
    """What a connection is for: it serves no request with another key."""

    scheme: str
    host: str
    """As in a normalized URL."""
    port: int
    tls: TlsRule | None
    http2: bool
    exempt: bool
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the requests: those over http, which have no tunnel."""
        return self.proxy is not None and self.scheme == "http"


class OpenConnection(NamedTuple):
    """A connection, and its HTTP protocol object."""

    key: ConnectionKey
    http: httpcore.AsyncHTTP11Connection | Http2Connection
    stream: NetworkStream
    origin: httpcore.Origin
    """The receiver of its requests: a proxy that reads them, else the host."""

    @property
    def is_reusable(self) -> bool:
        """Whether it can carry another request. What the server has sent unasked, its end too, speaks against it."""
        if not self.http.is_idle() or self.http.has_expired() or self.stream.get_extra_info("is_readable"):
            return False
        if isinstance(self.http, httpcore.AsyncHTTP11Connection):
            behind, _ = self.http._h11_state.trailing_data  # bytes that came in one piece with the last response
            return not behind
        return self.http.accepts_requests


class Connector:
    """Opens connections. Raises FetchFailed, ProxyFailed, and OSError of the connection to the host."""

    def __init__(
        self, dialer: Dialer, *, user_agent: str, deadline: float, idle_seconds: float, contexts: TlsContexts
    ) -> None:
        """`deadline`: of a request; a proxy that has not served after a third of it has failed."""
        self._dialer = dialer
        self._user_agent = user_agent
        self._proxy_seconds = min(_MAX_PROXY_SECONDS, deadline / 3)
        self._idle_seconds = idle_seconds
        self._contexts = contexts

    async def open(self, key: ConnectionKey) -> OpenConnection:
        """A connection for requests with this key."""
        if key.proxy is None:
            stream = await self._dialer.connect(key.host, key.port, exempt=key.exempt)
        else:
            stream = await self._reach_proxy(key, key.proxy)
            if key.is_forwarded:
                return self._speak(key, stream, _origin(key.proxy.scheme, key.proxy.host, key.proxy.port))
        if key.scheme == "https":
            try:
                context = self._contexts.find(key.tls, http2=key.http2)
            except FetchFailed:
                await stream.aclose()
                raise
            stream = await stream.start_tls(context, _tls_name(key.host))
        return self._speak(key, stream, _origin(key.scheme, key.host, key.port))

    def _speak(self, key: ConnectionKey, stream: NetworkStream, origin: httpcore.Origin) -> OpenConnection:
        kind = Http2Connection if stream.is_http2 and not key.is_forwarded else httpcore.AsyncHTTP11Connection
        return OpenConnection(key, kind(origin, stream, keepalive_expiry=self._idle_seconds), stream, origin)

    async def _reach_proxy(self, key: ConnectionKey, proxy: Proxy) -> NetworkStream:
        """A connection to the proxy; for https, a tunnel to the host."""
        opened: list[NetworkStream] = []
        try:
            async with asyncio.timeout(self._proxy_seconds):
                stream = await self._dialer.connect(proxy.host, proxy.port, exempt=True)
                opened.append(stream)
                if proxy.scheme == "https":
                    stream = await stream.start_tls(self._contexts.find(None, http2=False), _tls_name(proxy.host))
                    opened.append(stream)
                if not key.is_forwarded:
                    await self._open_tunnel(key, proxy, stream)
                return stream
        except BaseException as error:
            if opened:
                await opened[-1].aclose()
            if isinstance(error, TimeoutError):
                raise ProxyFailed(f"no answer in {self._proxy_seconds:g} s") from None
            if isinstance(error, OSError):
                raise ProxyFailed(_describe(error)) from error
            raise

    async def _open_tunnel(self, key: ConnectionKey, proxy: Proxy, stream: NetworkStream) -> None:
        target = key.authority.encode()
        headers = [(b"Host", target), (b"User-Agent", self._user_agent.encode())]
        if proxy.authorization:
            headers.append((b"Proxy-Authorization", proxy.authorization.encode()))
        origin = _origin(proxy.scheme, proxy.host, proxy.port)
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        stream.meter.start_exchange()
        try:
            answer = await httpcore.AsyncHTTP11Connection(origin, stream).handle_async_request(
                httpcore.Request(b"CONNECT", url, headers=headers)
            )
        except (httpcore.NetworkError, httpcore.ProtocolError, FloodDetected) as error:
            raise ProxyFailed("no valid answer to CONNECT") from error
        stream.meter.end_head()
        if answer.status in _PROXY_FAILURES:
            raise ProxyFailed(describe_refusal(answer.status))
        if not 200 <= answer.status < 300:
            raise FetchFailed(
                f"proxy {proxy} refuses a tunnel to {key.authority}: HTTP {answer.status}",
                kind="proxy",
                retryable=retryable_status(answer.status),
            )


def describe_refusal(status: int) -> str:
    """Why a proxy does not serve, by its status."""
    return f"HTTP {status}, it refuses the credentials" if status == PROXY_REFUSES else f"HTTP {status}"


def _describe(error: OSError) -> str:
    if isinstance(error, ssl.CertificateError):
        return invalid_certificate(error).reason
    if isinstance(error, ssl.SSLError):
        return tls_failure(error).reason
    return "its name cannot be resolved" if isinstance(error, socket.gaierror) else describe_os_error(error.errno)


def _origin(scheme: str, host: str, port: int) -> httpcore.Origin:
    return httpcore.Origin(scheme.encode(), host.encode(), port)


def _tls_name(host: str) -> str:
    """The name that the certificate must bear."""
    return host.strip("[]").rstrip(".")
