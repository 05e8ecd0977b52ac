"""Opens connections for httpcore: directly or through a proxy, by HTTP/1.1 or HTTP/2."""

import asyncio
import socket
import ssl
from typing import NamedTuple

import httpcore

from engine.http.dialer import Dialer
from engine.http.errors import FetchFailed
from engine.http.failures import describe_os_error, invalid_certificate, tls_failure
from engine.http.http2_connection import Http2Connection
from engine.http.network_stream import NetworkStream
from engine.http.proxies import Proxy, ProxyFailed
from engine.http.read_meter import FloodDetected
from engine.http.tls_contexts import TlsContexts
from engine.model.host import TlsRule
from engine.model.retry_policy import retryable_status

_MAX_PROXY_SECONDS = 10.0
PROXY_REFUSES = 407
_PROXY_FAILURES = frozenset({PROXY_REFUSES, 502, 503})
"""Statuses of a CONNECT by which the proxy itself says that it cannot serve."""


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
        """The host and the port."""
        return f"{self.host}:{self.port}"

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the requests: those over http, which have no tunnel."""
        return self.proxy is not None and self.scheme == "http"


class OpenConnection(NamedTuple):
    """A connection, and what speaks HTTP over it."""

    key: ConnectionKey
    http: httpcore.AsyncHTTP11Connection | Http2Connection
    stream: NetworkStream
    origin: httpcore.Origin
    """To whom its requests are addressed: the proxy if that reads them, else the host."""

    @property
    def is_reusable(self) -> bool:
        """Whether it can carry another request. What the server has sent unasked, its end too, speaks against it."""
        if not self.http.is_idle() or self.http.has_expired() or self.stream.get_extra_info("is_readable"):
            return False
        if isinstance(self.http, httpcore.AsyncHTTP11Connection):
            behind, _ = self.http._h11_state.trailing_data  # what has come in one piece with the last response
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
