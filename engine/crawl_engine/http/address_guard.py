"""Keeps a crawl away from guarded IP addresses: classifies, resolves and connects."""

import asyncio
import contextlib
import errno
import socket
import ssl
import struct
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Protocol

from aiohappyeyeballs import start_connection

from crawl_engine.http.errors import (
    FetchFailed,
    NoFileLeft,
    describe_os_error,
    invalid_certificate,
    tls_failure,
    unresolved_host,
)

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
_NAME_SECONDS = 60.0
"""For which the addresses of a name are remembered."""
_MAX_NAMES = 1000
_NEXT_ADDRESS_SECONDS = 0.25
"""After which a further address of a name is tried beside the one before (RFC 8305)."""


def literal_address(host: str) -> str | None:
    """The IP address that a host of a normalized URL spells, without brackets; None: the host is a name."""
    if host[:1] == "[":
        return host[1:-1]
    bare = host.rstrip(".")
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
    """A connection was refused before it was opened. An OSError, because happy eyeballs pass on no other error."""

    def __init__(self, address: str, category: str) -> None:
        super().__init__(errno.EACCES, f"guarded address {address}")
        self.address = address
        self.category = category


class Resolver(Protocol):
    """Finds the addresses of host names."""

    async def resolve(self, host: str) -> list[str]:
        """The addresses of a name, at least one. Raises OSError: socket.gaierror, GuardedAddress."""


class SystemResolver:
    """Asks the resolver of the machine."""

    async def resolve(self, host: str) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        return [_to_address(family, sockaddr) for family, _, _, _, sockaddr in found]


class CachedResolver:
    """Asks for a name once a minute, also where many requests need it."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._asked: dict[str, tuple[float, asyncio.Task[list[str]]]] = {}

    def find_known(self, host: str) -> str | None:
        """The first address of a name that was asked for before; None: it was not, or has none."""
        _, asking = self._asked.get(host, (0.0, None))
        if asking is None or not asking.done() or _has_failed(asking):
            return None
        return next(iter(asking.result()), None)

    async def resolve(self, host: str) -> list[str]:
        now = asyncio.get_running_loop().time()
        asked_at, asking = self._asked.get(host, (0.0, None))
        if asking is None or now > asked_at + _NAME_SECONDS or _has_failed(asking):
            if len(self._asked) >= _MAX_NAMES:
                self._asked.clear()
            asking = asyncio.ensure_future(self._resolver.resolve(host))
            self._asked[host] = now, asking
        return await asyncio.shield(asking)


class GuardedResolver:
    """Resolves names to their public addresses. Refuses a name whose addresses are all guarded."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(self, host: str) -> list[str]:
        resolved = await self._resolver.resolve(host)
        public = [address for address in resolved if guarded_category(address) is None]
        if resolved and not public:
            raise GuardedAddress(resolved[0], guarded_category(resolved[0]) or "")
        return public


_DISCARD, _DELIVER = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
"""What the kernel does with unsent bytes once a connection is closed."""


async def connect(resolver: Resolver, host: str, port: int, *, exempt: bool) -> socket.socket:
    """A connection. `host`: a name or an address as in a normalized URL, with brackets or without.

    `resolver`: a GuardedResolver unless `exempt`. What the network has not taken ends with the process: the kernel
    would send it later, beside the requests of another one. `end_in_order` comes before a close.
    Raises OSError: GuardedAddress if all addresses of the host are guarded, socket.gaierror without an address.
    Raises NoFileLeft.
    """
    try:
        return await _connect(resolver, host, port, exempt=exempt)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        of_whom = "process" if error.errno == errno.EMFILE else "system"
        raise NoFileLeft(f"no open file is left to this {of_whom} for a connection (ulimit -n)") from error


async def _connect(resolver: Resolver, host: str, port: int, *, exempt: bool) -> socket.socket:
    address = literal_address(host)
    addresses = [address] if address else await resolver.resolve(host)
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    try:
        connected = await start_connection(
            [_to_addr_info(one, port) for one in addresses],
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=None if exempt else open_guarded_socket,
        )
    except PermissionError:
        category = None if exempt else guarded_category(addresses[0])
        if category is None:
            raise
        raise GuardedAddress(addresses[0], category) from None  # several refusals came as one
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
    return connected


def end_in_order(connected: Any) -> None:
    """Have the close that follows deliver what was sent, and not reset the connection."""
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DELIVER)


def connect_failure(error: BaseException, host: str) -> FetchFailed:
    """The failure to open a connection."""
    if isinstance(error, ssl.CertificateError):
        return invalid_certificate(error)
    if isinstance(error, ssl.SSLError):
        return tls_failure(error)
    if isinstance(error, socket.gaierror):
        return unresolved_host(host, error)
    if isinstance(error, ValueError):
        return FetchFailed("invalid HTTP request", kind="url", retryable=False)
    return FetchFailed(describe_os_error(getattr(error, "errno", None)), kind="connection", retryable=True)


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


def _to_address(family: int, sockaddr: tuple[Any, ...]) -> str:
    """The address of an answer of `getaddrinfo`, with the number of its scope."""
    return f"{sockaddr[0]}%{sockaddr[3]}" if family == socket.AF_INET6 and sockaddr[3] else str(sockaddr[0])


def _to_addr_info(address: str, port: int) -> Any:
    """The address as `getaddrinfo` gives it."""
    if ":" not in address:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
    bare, _, scope = address.partition("%")
    number = int(scope) if scope.isdigit() else socket.if_nametoindex(scope) if scope else 0
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (bare, port, 0, number)


def _has_failed(task: asyncio.Task[list[str]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
