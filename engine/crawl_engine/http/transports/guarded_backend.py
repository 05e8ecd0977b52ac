"""The network of httpcore's pools: connects to public addresses or a proxy, reads in small steps."""

import asyncio
import errno
import select
import socket
import ssl
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import httpcore

from crawl_engine.http.address_guard import Resolver, connect, end_in_order
from crawl_engine.http.errors import HandshakeEnded, describe_os_error, invalid_certificate, tls_failure
from crawl_engine.http.transports.loose_head import is_strict, read_loosely
from crawl_engine.http.transports.proxies import ProxyFailed

READ_BYTES = 16 * 1024
"""Bytes of one read: a hostile server's messages in them are parsed without letting other tasks run."""
_T = TypeVar("_T")


class GuardedStream(httpcore.AsyncNetworkStream):
    """A connection with a part in TLS: a request has a deadline, so the timeouts of its reads and writes are unused."""

    last_read = b""
    """What the last read gave."""
    has_odd_head = False
    """Whether a head was read loosely: the connection serves no other request."""
    _start: bytes | None = None
    """What came of the response to the last request, until its head is complete."""
    on_tls: Callable[[], None] | None = None
    """Called before TLS starts."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """The next bytes, a head of HTTP/1 at once; empty at the end. Raises httpcore.ReadError, ssl.SSLError."""
        data = await self.read_some(max_bytes)
        while self._start is not None and data:
            self._start += data
            head = self._start if is_strict(self._start) else read_loosely(self._start, len(data))
            if head is None:
                data = await self.read_some(max_bytes)
            else:
                self.has_odd_head |= head is not self._start
                self._start, data = None, head
        self.last_read = data
        return data

    @abstractmethod
    async def read_some(self, max_bytes: int) -> bytes:
        """The next bytes; empty at the end, of which TLS tells. Raises httpcore.ReadError, ssl.SSLError."""

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None  # noqa: ARG002
    ) -> "TlsStream":  # fmt: skip
        """The same connection with TLS. Raises OSError, of which ssl.SSLError is one; the connection is then closed."""
        if self.on_tls is not None:
            self.on_tls()
        stream = TlsStream(self, ssl_context, (server_hostname or "").strip("[]").rstrip("."))
        try:
            await stream.shake_hands()
        except BaseException:
            await self.aclose()
            raise
        return stream


class SocketStream(GuardedStream):
    """Owns the socket. Used by one task at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def read_some(self, max_bytes: int) -> bytes:
        await asyncio.sleep(0)  # a socket that is always readable must not keep the loop
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, min(max_bytes, READ_BYTES))
        except (OSError, ValueError) as error:  # a closed socket has no number
            raise httpcore.ReadError from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send all bytes. Raises httpcore.WriteError."""
        self._start = b""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, buffer)
        except (OSError, ValueError) as error:
            raise httpcore.WriteError from error

    async def aclose(self) -> None:
        end_in_order(self._socket)
        self._socket.close()

    def detach(self) -> socket.socket:
        """The socket, which is the caller's from now on."""
        return self._socket

    def get_extra_info(self, info: str) -> Any:
        """For `is_readable`: whether bytes, or the end, can be read now."""
        if info != "is_readable":
            return None
        if self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))


class TlsStream(GuardedStream):
    """TLS over another stream."""

    def __init__(self, inner: GuardedStream, context: ssl.SSLContext, hostname: str) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)

    async def shake_hands(self) -> None:
        """Raises OSError, of which ssl.SSLError is one."""
        try:
            await self._run(self._tls.do_handshake)
        except (httpcore.NetworkError, ssl.SSLEOFError) as error:
            raise HandshakeEnded(errno.ECONNRESET, "closed during the handshake") from error

    async def read_some(self, max_bytes: int) -> bytes:
        try:
            return await self._run(partial(self._tls.read, min(max_bytes, READ_BYTES)))
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLEOFError as error:
            raise httpcore.ReadError from error  # whoever cuts the connection may end a body

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send all bytes. Raises httpcore.WriteError, ssl.SSLError."""
        self._start = b""
        rest = memoryview(buffer)
        while rest:
            rest = rest[await self._run(partial(self._tls.write, rest)) :]

    async def aclose(self) -> None:
        """Close the connection without waiting for the other side."""
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        """The TLS object, and whether bytes, or the end, can be read now."""
        if info == "ssl_object":
            return self._tls
        if info == "is_readable":
            return self._incoming.pending > 0 or self._tls.pending() > 0 or self._inner.get_extra_info(info)
        return None

    async def _run(self, step: Callable[[], _T]) -> _T:
        """The result of a step of OpenSSL, which gets the bytes that it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._send_outgoing()
                if data := await self._inner.read_some(READ_BYTES):
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._send_outgoing()
                return result

    async def _send_outgoing(self) -> None:
        if self._outgoing.pending:
            await self._inner.write(self._outgoing.read())


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only, as the other transport does, and to any for exempt hosts."""

    def __init__(self, resolver: Resolver, *, exempt: bool) -> None:
        """`resolver`: a GuardedResolver unless `exempt`."""
        self._resolver = resolver
        self._exempt = exempt
        self.limit: asyncio.Timeout
        """Of the request that may open a connection."""
        self.has_served = True
        """False until a proxy has done its part; what fails then is the fault of the host."""

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> GuardedStream:
        """A connection. `host`: a name or an address as in a normalized URL, with brackets or without.

        Raises OSError: GuardedAddress if all addresses of the host are guarded, socket.gaierror without an address.
        """
        return SocketStream(await connect(self._resolver, host, port, exempt=self._exempt))


class ProxyBackend(GuardedBackend):
    """Connects to a proxy, by TLS where its URL says so. Its pool has one connection."""

    def __init__(self, resolver: Resolver, tls: ssl.SSLContext | None, *, tunnels: bool, seconds: float) -> None:
        """`tunnels`: the requests go to hosts over https. `seconds`: in which the proxy must serve."""
        super().__init__(resolver, exempt=True)
        self._tls = tls
        self._tunnels = tunnels
        self._seconds = seconds

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> GuardedStream:
        """A connection to the proxy. Raises ProxyFailed."""
        self.has_served = False
        self.limit.reschedule(asyncio.get_running_loop().time() + self._seconds)
        try:
            stream = await super().connect_tcp(host, port)
            if self._tls is not None:
                stream = await stream.start_tls(self._tls, host)
        except OSError as error:
            raise ProxyFailed(_describe(error)) from error
        if self._tunnels:
            stream.on_tls = self._note_service
        else:
            self._note_service()
        return stream

    def _note_service(self) -> None:
        self.has_served = True
        self.limit.reschedule(None)


def _describe(error: OSError) -> str:
    if isinstance(error, ssl.CertificateError):
        return invalid_certificate(error).reason
    if isinstance(error, ssl.SSLError):
        return tls_failure(error).reason
    return "its name cannot be resolved" if isinstance(error, socket.gaierror) else describe_os_error(error.errno)
