"""Connects through a SOCKS5 proxy (RFC 1928), with a user and password by RFC 1929."""

from ipaddress import IPv4Address, ip_address

import httpcore

from crawl_engine.http.address_guard import Resolver, literal_address
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.transports.guarded_backend import GuardedStream, ProxyBackend
from crawl_engine.http.transports.proxies import Proxy, ProxyFailed

_VERSION, _CONNECT, _OPEN, _BY_PASSWORD = 5, 1, 0, 2
_PASSWORD_VERSION, _DONE = 1, 0
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES = {_IPV4: 4, _IPV6: 16}
_MAX_TEXT = 255
_HOST_FAILURES = {3: "no route to network", 4: "no route to host", 5: "connection refused", 6: "no answer in time"}
"""Replies about the host."""
_REFUSALS = {2: "its rules forbid it", 7: "it makes no connections", 8: "it does not know this kind of address"}
"""Replies that would be the same the next time."""


class SocksBackend(ProxyBackend):
    """Connects to hosts through a proxy, which gets the name of a host by `socks5h`, and its address by `socks5`."""

    def __init__(self, resolver: Resolver, proxy: Proxy, host_resolver: Resolver, *, seconds: float) -> None:
        """`resolver`: of the proxy. `seconds`: in which the proxy must serve."""
        super().__init__(resolver, None, tunnels=True, seconds=seconds)
        self._proxy = proxy
        self._host_resolver = host_resolver

    async def connect_tcp(self, host: str, port: int, *_: object, **__: object) -> GuardedStream:
        """A connection to the host. Raises ProxyFailed; FetchFailed if the proxy cannot reach the host.

        Raises OSError where the address is asked for: GuardedAddress, or socket.gaierror without one.
        """
        literal = literal_address(host)
        target = literal or host
        if literal is None and self._proxy.scheme == "socks5":
            addresses = await self._host_resolver.resolve(host)
            target = next((one for one in addresses if ":" not in one), addresses[0])  # many proxies lack IPv6
        stream = await super().connect_tcp(self._proxy.host, self._proxy.port)
        stream.on_tls = None
        try:
            await self._greet(stream)
            await self._ask_for(stream, target, port)
        except httpcore.NetworkError as error:
            await stream.aclose()
            raise _invalid_answer() from error
        except BaseException:
            await stream.aclose()
            raise
        self._note_service()
        return stream

    async def _greet(self, stream: GuardedStream) -> None:
        """Agree on how the proxy knows its users. Raises ProxyFailed."""
        user, password = (text.encode("utf-8", "replace") for text in self._proxy.user_and_password)
        if len(user) > _MAX_TEXT or len(password) > _MAX_TEXT:
            raise ProxyFailed(f"its user or password has more than {_MAX_TEXT} bytes")
        methods = bytes((_OPEN, _BY_PASSWORD) if user or password else (_OPEN,))
        await stream.write(bytes((_VERSION, len(methods))) + methods)
        version, method = await _read(stream, 2)
        if version != _VERSION:
            raise _invalid_answer()
        if method not in methods:
            raise ProxyFailed("it wants a user and password" if len(methods) == 1 else "it refuses the credentials")
        if method == _BY_PASSWORD:
            texts = bytes((len(user),)) + user + bytes((len(password),)) + password
            await stream.write(bytes((_PASSWORD_VERSION,)) + texts)
            _, status = await _read(stream, 2)
            if status != _DONE:
                raise ProxyFailed("it refuses the credentials")

    async def _ask_for(self, stream: GuardedStream, target: str, port: int) -> None:
        """Ask for the connection. Raises FetchFailed, ProxyFailed."""
        await stream.write(bytes((_VERSION, _CONNECT, 0)) + _encode_target(target) + port.to_bytes(2))
        version, reply, _, kind = await _read(stream, 4)
        if version != _VERSION:
            raise _invalid_answer()
        if reply != _DONE:
            raise _refusal(reply, self._proxy, target, port)
        if kind != _NAME and kind not in _ADDRESS_BYTES:
            raise _invalid_answer()
        length = _ADDRESS_BYTES[kind] if kind != _NAME else (await _read(stream, 1))[0]
        await _read(stream, length + 2)  # the address from which the proxy connects, and its port


def _encode_target(target: str) -> bytes:
    """An address or a name as a proxy reads it. Raises FetchFailed."""
    try:
        address = ip_address(target.partition("%")[0])
    except ValueError:
        name = target.encode()
        if len(name) > _MAX_TEXT:
            text = f"the name of the host has more than {_MAX_TEXT} bytes"
            raise FetchFailed(text, kind="url", retryable=False) from None
        return bytes((_NAME, len(name))) + name
    return bytes((_IPV4 if isinstance(address, IPv4Address) else _IPV6,)) + address.packed


def _refusal(reply: int, proxy: Proxy, target: str, port: int) -> FetchFailed:
    if reply in _HOST_FAILURES:
        return FetchFailed(f"{_HOST_FAILURES[reply]}, by proxy {proxy}", kind="connection", retryable=True)
    reason = _REFUSALS.get(reply, f"general failure ({reply})")
    text = f"proxy {proxy} refuses a connection to {target}:{port}: {reason}"
    return FetchFailed(text, kind="proxy", retryable=reply not in _REFUSALS)


def _invalid_answer() -> ProxyFailed:
    return ProxyFailed("no valid answer to SOCKS5")


async def _read(stream: GuardedStream, length: int) -> bytes:
    """Exactly so many bytes: what follows them is the host's. Raises ProxyFailed, httpcore.ReadError."""
    data = b""
    while len(data) < length:
        piece = await stream.read_some(length - len(data))
        if not piece:
            raise _invalid_answer()
        data += piece
    return data
