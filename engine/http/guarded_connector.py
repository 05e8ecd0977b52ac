"""Connects to public addresses only: filters what names resolve to, and every address about to be connected."""

import errno
import socket
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from engine.http.address_guard import guarded_category

_REFUSAL_SECONDS = 60.0
"""Seconds to remember that all addresses of a name are guarded: as long as other names are cached."""
_MAX_REFUSALS = 1000


class GuardedAddress(OSError):
    """A connection was refused before it was opened. An OSError, because aiohttp passes on no other error."""

    def __init__(self, address: str, category: str) -> None:
        super().__init__(errno.EACCES, f"guarded address {address}")
        self.address = address
        self.category = category


class GuardedResolver(AbstractResolver):
    """Resolves names to their public addresses. A name that has none is refused."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver
        self._refusals: dict[tuple[str, int], tuple[float, GuardedAddress]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The public addresses of a name. Raises GuardedAddress if all it has are guarded."""
        refused_at, refusal = self._refusals.get((host, port), (0.0, None))
        if refusal is not None and time.monotonic() < refused_at + _REFUSAL_SECONDS:
            raise GuardedAddress(refusal.address, refusal.category)
        resolved = await self._resolver.resolve(host, port, family)
        public = [result for result in resolved if guarded_category(result["host"]) is None]
        if resolved and not public:
            address = resolved[0]["host"]
            refusal = GuardedAddress(address, guarded_category(address) or "")
            if len(self._refusals) >= _MAX_REFUSALS:
                self._refusals.clear()
            self._refusals[host, port] = (time.monotonic(), refusal)
            raise refusal
        return public

    async def close(self) -> None:
        """Close the inner resolver."""
        await self._resolver.close()


def open_guarded_socket(addr_info: Sequence[Any]) -> socket.socket:
    """A socket for an address about to be connected; `addr_info` as of `getaddrinfo`. Raises GuardedAddress.

    The last check: it sees every address, however it was found.
    """
    family, type_, proto, _, sockaddr = addr_info
    address = str(sockaddr[0])
    category = guarded_category(address)
    if category is not None:
        raise GuardedAddress(address, category)
    return socket.socket(family=family, type=type_, proto=proto)


def find_guarded_address(error: BaseException) -> GuardedAddress | None:
    """The refusal in an error of aiohttp."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return cause if isinstance(cause, GuardedAddress) else None
