"""Picks the wire of a request: the plain one, or httpcore for a proxy, TLS settings or HTTP/2."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

import httpx

from crawl_engine.http.errors import NoFileLeft
from crawl_engine.http.exchange import OutgoingRequest, WireResponse
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.http.transports.plain_wire import PlainWire
from crawl_engine.model.host import HostRoute

if TYPE_CHECKING:
    from crawl_engine.http.transports.httpcore_wire import HttpcoreWire

_CLOSING_SECONDS = 0.1
"""In which the loop closes idle connections."""


class RouteTransport(httpx.AsyncBaseTransport):
    """Hosts whose rule sets a proxy, TLS or HTTP/2 have a wire of their own, loaded at their first request."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        connections: int,
        deadline: float,
        resolvers: Resolvers,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`headers`: of every request. `tls` replaces the system's trust store, for hosts without a route."""
        self._headers = headers
        self._connections = connections
        self._deadline = deadline
        self._resolvers = resolvers
        self._idle = IdleConnections()
        self._plain = PlainWire(headers=headers, connections=connections, idle=self._idle, resolvers=resolvers, tls=tls)
        self._httpcore: HttpcoreWire | None = None

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises NoFileLeft if closing the idle connections does not help."""
        assert isinstance(request, OutgoingRequest)
        wire = self._plain if request.terms.route is None else self._find_wire(request.target, request.terms.route)
        try:
            return await wire.handle_async_request(request)
        except NoFileLeft:
            self._idle.close_all()
            await asyncio.sleep(_CLOSING_SECONDS)
            return await wire.handle_async_request(request)

    def _find_wire(self, url: str, route: HostRoute) -> "PlainWire | HttpcoreWire":
        if not route.proxies and url.startswith("http:"):
            return self._plain
        if self._httpcore is None:
            from crawl_engine.http.transports.httpcore_wire import HttpcoreWire  # few crawls need it

            self._httpcore = HttpcoreWire(
                headers=self._headers, connections=self._connections, deadline=self._deadline,
                idle=self._idle, resolvers=self._resolvers,
            )  # fmt: skip
        return self._httpcore

    async def aclose(self) -> None:
        self._idle.close_all()
        if self._httpcore is not None:
            await self._httpcore.aclose()
