"""Opens connections to hosts for browsers: to allowed addresses, through the proxy of a host."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from crawl_engine.http.address_guard import GuardedAddress, connect, connect_failure
from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.transports.guard import Resolvers, check_url
from crawl_engine.http.transports.proxies import (
    PROXY_REFUSES,
    Proxy,
    ProxyFailed,
    ProxyRotation,
    read_proxy,
    tunnel_failure,
)
from crawl_engine.http.transports.tls import TlsContexts
from crawl_engine.model.host import HostRoute

HEAD_BYTES = 128 * 1024
_CONNECT_SECONDS = 30.0
_PROXY_SECONDS = 10.0
_NO_SERVICE = "no answer in 10 s"


class HostAccess(NamedTuple):
    """What the defs say of a host."""

    is_exempt: bool
    """Whether it may be at a guarded address."""
    route: HostRoute | None = None


class FarEnd(NamedTuple):
    """A connection to a host, or to a proxy that forwards one request to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    forwarder: Proxy | None = None
    chosen_at: float = 0.0
    """When the proxy was chosen."""


class FarEnds:
    """For one event loop. Proxies rest as they do for other requests; each node finds out for itself."""

    def __init__(self, resolvers: Resolvers) -> None:
        self._resolvers = resolvers
        self._rotation = ProxyRotation()
        self._contexts = TlsContexts()

    async def open(self, access: HostAccess, host: str, port: int, *, is_tunnel: bool) -> FarEnd:
        """Raises FetchFailed, of which AddressRefused is one, and NoFileLeft. `is_tunnel`: no proxy reads it."""
        proxies = () if access.route is None else tuple(map(read_proxy, access.route.proxies))
        if proxies and not access.is_exempt:
            check_url(f"http://{host}:{port}/", access.route)
        try:
            if not proxies:
                resolver = self._resolvers.find(exempt=access.is_exempt)
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await _to_streams(await connect(resolver, host, port, exempt=access.is_exempt))
            return await self._open_through(proxies, access, host, port, is_tunnel=is_tunnel)
        except GuardedAddress as guarded:
            raise AddressRefused(host, port, guarded.address, guarded.category) from guarded
        except TimeoutError as error:
            text = f"no connection in {_CONNECT_SECONDS:g} s"
            raise FetchFailed(text, kind="timeout", retryable=True) from error
        except (OSError, ValueError) as error:
            raise connect_failure(error, host) from error

    def note_refusal(self, end: FarEnd) -> None:
        """Note that a proxy does not forward our requests."""
        assert end.forwarder is not None
        self._rotation.mark_failed(end.forwarder, end.chosen_at, str(ProxyFailed.by_status(PROXY_REFUSES)))

    async def _open_through(
        self, proxies: Sequence[Proxy], access: HostAccess, host: str, port: int, *, is_tunnel: bool
    ) -> FarEnd:
        for proxy, chosen_at in self._rotation.candidates(tuple(proxies)):
            try:
                async with asyncio.timeout(_PROXY_SECONDS):
                    if proxy.is_socks:
                        end = await self._open_socks(proxy, access, host, port)
                    else:
                        end = await self._open_http(proxy, f"{host}:{port}", is_tunnel=is_tunnel)
            except (ProxyFailed, TimeoutError) as failed:
                self._rotation.mark_failed(proxy, chosen_at, str(failed) or _NO_SERVICE)
                continue
            self._rotation.mark_served(proxy)
            return end._replace(chosen_at=chosen_at)
        raise self._rotation.failure(proxies)

    async def _open_socks(self, proxy: Proxy, access: HostAccess, host: str, port: int) -> FarEnd:
        from crawl_engine.http.transports.guarded_backend import SocketStream  # slow, and few hosts have such a proxy
        from crawl_engine.http.transports.socks import SocksBackend

        own = self._resolvers.find(exempt=access.is_exempt)
        backend = SocksBackend(self._resolvers.find(exempt=True), proxy, own, seconds=_PROXY_SECONDS)
        async with asyncio.timeout(None) as backend.limit:
            stream = await backend.connect_tcp(host, port)
        assert isinstance(stream, SocketStream), "TLS to a proxy is for HTTP alone"
        return await _to_streams(stream.detach())

    async def _open_http(self, proxy: Proxy, authority: str, *, is_tunnel: bool) -> FarEnd:
        """Raises ProxyFailed; FetchFailed if the proxy refuses this host."""
        tls = self._contexts.find(None, http2=False) if proxy.scheme == "https" else None
        try:
            connected = await connect(self._resolvers.find(exempt=True), proxy.host, proxy.port, exempt=True)
            end = await _to_streams(connected, tls, proxy.host)
        except OSError as error:
            raise ProxyFailed(connect_failure(error, proxy.host).reason) from error
        if not is_tunnel:
            return end._replace(forwarder=proxy)
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        lines += [f"Proxy-Authorization: {proxy.authorization}"] if proxy.authorization else []
        end.writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            head = await end.reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
            end.writer.close()
            raise ProxyFailed("no valid answer to CONNECT") from error
        except BaseException:
            end.writer.close()
            raise
        if status // 100 != 2:
            end.writer.close()
            raise tunnel_failure(proxy, authority, status)
        return end


async def _to_streams(connected: object, tls: ssl.SSLContext | None = None, host: str | None = None) -> FarEnd:
    name = host.strip("[]").rstrip(".") if tls is not None and host is not None else None
    reader, writer = await asyncio.open_connection(sock=connected, limit=HEAD_BYTES, ssl=tls, server_hostname=name)
    return FarEnd(reader, writer)
