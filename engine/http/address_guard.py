"""Keeps a crawl away from guarded IP addresses: classifies, resolves and connects."""

import errno
import socket
import time
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

# The standard library's `is_private` and `is_global` differ between Python versions, so the networks are listed here.
# The first that contains an address decides.
_IPV4_NETWORKS = tuple(
    (IPv4Network(network), category)
    for network, category in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_IPV6_NETWORKS = tuple(
    (IPv6Network(network), category)
    for network, category in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("64:ff9b:1::/48", "private"),  # NAT64 prefixes for local use
        ("2001::/23", "reserved"),  # protocol assignments; Teredo, a part of it, is decided before
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The only IPv6 addresses that IANA has assigned to hosts of the Internet."""

_NAT64, _TEREDO, _SIX_TO_FOUR = IPv6Network("64:ff9b::/96"), IPv6Network("2001::/32"), IPv6Network("2002::/16")
_MAX_CACHED = 4096
_REFUSAL_SECONDS = 60.0
"""Seconds to remember that all addresses of a name are guarded: as long as other names are cached."""
_MAX_REFUSALS = 1000


def literal_address(host: str) -> str | None:
    """The IP address that a host of a normalized URL spells, without brackets; None: the host is a name."""
    if host[:1] == "[":
        return host[1:-1]
    bare = host.rstrip(".")  # aiohttp connects to `127.0.0.1..` as to `127.0.0.1`
    return bare if bare[-1:].isdigit() and bare.replace(".", "").isdigit() else None


@lru_cache(_MAX_CACHED)
def guarded_category(address: str) -> str | None:
    """Why an address is guarded, for example `private`; None if it is public. Other texts are guarded, too.

    An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4, Teredo) is judged by that one. A scope id is
    ignored.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "not an IP address"
    return _category_of_ipv4(parsed) if isinstance(parsed, IPv4Address) else _category_of_ipv6(parsed)


def _category_of_ipv4(address: IPv4Address) -> str | None:
    return next((category for network, category in _IPV4_NETWORKS if address in network), None)


def _category_of_ipv6(address: IPv6Address) -> str | None:
    embedded = _embedded_addresses(address)
    if embedded:
        categories = ((inner, _category_of_ipv4(inner)) for inner in embedded)
        return next((f"{category} (it holds {inner})" for inner, category in categories if category), None)
    for network, category in _IPV6_NETWORKS:
        if address in network:
            return category
    return None if address in _GLOBAL_UNICAST else "reserved"


def _embedded_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses to which a packet for this address may be sent."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    packed = address.packed
    if address in _NAT64:
        return (IPv4Address(packed[12:]),)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(packed[2:6]),)
    if address in _TEREDO:  # the server, and the client with all bits inverted
        return IPv4Address(packed[4:8]), IPv4Address(bytes(byte ^ 0xFF for byte in packed[12:]))
    return ()


class GuardedAddress(OSError):
    """A connection was refused before it was opened. An OSError, because aiohttp passes on no other error."""

    def __init__(self, address: str, category: str) -> None:
        super().__init__(errno.EACCES, f"guarded address {address}")
        self.address = address
        self.category = category


class GuardedResolver(AbstractResolver):
    """Resolves names to their public addresses. Refuses a name whose addresses are all guarded."""

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
