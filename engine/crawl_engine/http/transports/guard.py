"""Refuses requests to guarded addresses: in the URL, and where a wire finds one."""

import httpx

from crawl_engine import urls
from crawl_engine.http.address_guard import (
    CachedResolver,
    GuardedAddress,
    GuardedResolver,
    Resolver,
    SystemResolver,
    guarded_category,
    literal_address,
)
from crawl_engine.http.errors import AddressRefused, ProxiedNameRefused
from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireResponse
from crawl_engine.model.host import HostRoute


class Resolvers:
    """The resolvers of all wires."""

    def __init__(self, given: Resolver | None = None) -> None:
        self._any = CachedResolver(given or SystemResolver())
        self._public = GuardedResolver(self._any)

    def find_known(self, host: str) -> str | None:
        """The first address of a name that was asked for in the last minute; None: it was not, or has none."""
        return self._any.find_known(host)

    def find(self, *, exempt: bool) -> Resolver:
        """One that resolves to public addresses only, unless the host is exempt."""
        return self._any if exempt else self._public


class GuardTransport(httpx.AsyncBaseTransport):
    """A proxy resolves names, so that no guard sees their addresses: through one only literals pass."""

    def __init__(self, inner: RequestTransport, resolvers: Resolvers) -> None:
        self._inner = inner
        self._resolvers = resolvers

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises AddressRefused; nothing was sent then."""
        assert isinstance(request, OutgoingRequest)
        terms = request.terms
        try:
            if not terms.exempt:
                check_url(request.target, terms.route)
            return await self._send(request)
        except AddressRefused:
            # only hosts with guarded addresses cost the search for their names in the defs
            if terms.exempt or terms.find_exemption is None or not terms.find_exemption():
                raise
        terms.exempt = True
        return await self._send(request)

    async def check(self, url: str, route: HostRoute | None) -> None:
        """Raise AddressRefused if the guard refuses the host of a normalized URL now. Connects to nothing."""
        check_url(url, route)
        if route is not None and route.proxies:
            return
        try:
            await self._resolvers.find(exempt=False).resolve(urls.host_of(url))
        except GuardedAddress as guarded:
            raise _to_refusal(url, guarded.address, guarded.category) from guarded
        except (OSError, UnicodeError):
            return  # names that cannot resolve pass the guard; the connection fails

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _send(self, request: OutgoingRequest) -> WireResponse:
        try:
            return await self._inner.handle_async_request(request)
        except GuardedAddress as guarded:
            raise _to_refusal(request.target, guarded.address, guarded.category) from guarded


def check_url(url: str, route: HostRoute | None) -> None:
    """Raise AddressRefused if the host is a guarded address, or a name that only a proxy would resolve."""
    host = urls.host_of(url)
    address = literal_address(host)
    category = None if address is None else guarded_category(address)
    if address is not None and category is not None:
        raise _to_refusal(url, address, category)
    if address is None and route is not None and route.proxies:
        raise ProxiedNameRefused(host, _port_of(url))


def _to_refusal(url: str, address: str, category: str) -> AddressRefused:
    """The refusal of a URL because of an address of its host."""
    return AddressRefused(urls.host_of(url), _port_of(url), address, category)


def _port_of(url: str) -> int:
    return int(urls.host_key(url).rpartition(":")[2])
