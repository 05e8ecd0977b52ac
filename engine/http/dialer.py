"""Opens TCP connections: resolves names, tries all their addresses, and refuses guarded ones unless they are exempt."""

import socket
from typing import Any

import aiohttp
from aiohappyeyeballs import start_connection
from aiohttp.abc import AbstractResolver

from engine.http.address_guard import literal_address
from engine.http.guarded_connector import GuardedResolver, open_guarded_socket
from engine.http.network_stream import NetworkStream

_NEXT_ADDRESS_SECONDS = 0.25
"""After which a further address of a name is tried beside the one before (RFC 8305)."""


class Dialer:
    """Connects to public addresses only, as the other transport does, and to any for exempt hosts."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._given_resolver = resolver
        self._own_resolver: AbstractResolver | None = None
        self._guarded: GuardedResolver | None = None

    async def connect(self, host: str, port: int, *, exempt: bool) -> NetworkStream:
        """A connection. `host`: a name or an address as in a normalized URL, with brackets or without.

        Raises OSError: GuardedAddress where all addresses of the host are guarded, socket.gaierror where it has none.
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
        """Close the resolver."""
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
