"""Picks the wire of a request: the plain one, or httpcore for a proxy, TLS settings or HTTP/2."""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

import httpx

from engine.http.exchange import OutgoingRequest, WireResponse
from engine.http.transports.guard import Resolvers
from engine.http.transports.plain_wire import PlainWire
from engine.model.host import HostRoute

if TYPE_CHECKING:
    from engine.http.transports.httpcore_wire import HttpcoreWire


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
        self._plain = PlainWire(headers=headers, connections=connections, resolvers=resolvers, tls=tls)
        self._httpcore: HttpcoreWire | None = None

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        route = request.terms.route
        if route is None or _changes_nothing(route, request.target):
            return await self._plain.handle_async_request(request)
        if self._httpcore is None:
            from engine.http.transports.httpcore_wire import HttpcoreWire  # few crawls need it

            self._httpcore = HttpcoreWire(
                headers=self._headers, connections=self._connections, deadline=self._deadline,
                resolvers=self._resolvers,
            )  # fmt: skip
        return await self._httpcore.handle_async_request(request)

    async def aclose(self) -> None:
        await self._plain.aclose()
        if self._httpcore is not None:
            await self._httpcore.aclose()


def _changes_nothing(route: HostRoute, url: str) -> bool:
    return not route.proxies and url.startswith("http:")
