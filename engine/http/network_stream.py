"""One connection for httpcore: a socket with or without TLS, and bounds on the server's messages."""

import asyncio
import errno
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio
import httpcore
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

_MAX_HEAD_BYTES = 128 * 1024
"""Of one response, with all interim ones (1xx); h11 takes at most 100 KiB for a single head."""
_FRAME_HEADER_BYTES = 9
_DATA = 0
_MAX_FRAME_BYTES = 2**14
"""The limit of RFC 9113 as long as no other is agreed on; the library would keep 16 MB before it looks."""
_FIRST_FRAMES = 1_000
_FRAMES_PER_EXCHANGE = 500
"""A server sends one frame of headers, and a few that update windows or settings."""
_BYTES_PER_FRAME = 256
"""Further frames that a long body pays for; usual ones are 16 KiB long."""
_FIRST_PIECES = 10_000
_BYTES_PER_PIECE = 64
READ_BYTES = 16 * 1024
"""Bytes of one read: a hostile server's messages in them are parsed without letting other tasks run."""
HTTP2 = "h2"


class FloodDetected(Exception):
    """A server sends more than any response needs. The text says what."""


class ReadMeter(Protocol):
    """Counts the bytes read from one connection, which carries one exchange at a time."""

    def start_exchange(self) -> None:
        """Note that a request is about to be sent."""

    def end_head(self) -> None:
        """Note that the head of its response is complete."""

    def count(self, data: bytes) -> None:
        """Count bytes that were read. Raises FloodDetected."""


class HeadMeter:
    """Of HTTP/1.1: bounds the bytes in front of a body."""

    def __init__(self) -> None:
        self._left: int | None = None

    def start_exchange(self) -> None:
        self._left = _MAX_HEAD_BYTES

    def end_head(self) -> None:
        self._left = None

    def count(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise FloodDetected(f"more than {_MAX_HEAD_BYTES // 1024} KiB of headers and interim responses")


class FrameMeter:
    """Bounds the number of HTTP/2 frames of any type, known or not.

    The library answers each PING and SETTINGS, and keeps no count of empty DATA, of PRIORITY, of WINDOW_UPDATE or of
    interim HEADERS: without a bound a server could keep a node busy for a whole deadline, for a few bytes each.
    """

    def __init__(self) -> None:
        self._allowed = _FIRST_FRAMES
        self._frames = 0
        self._data_bytes = 0
        self._header = b""
        self._skip = 0

    def start_exchange(self) -> None:
        self._allowed += _FRAMES_PER_EXCHANGE

    def end_head(self) -> None:
        pass

    def count(self, data: bytes) -> None:
        position, size = 0, len(data)
        while position < size:
            if self._skip:
                taken = min(self._skip, size - position)
                self._skip -= taken
                position += taken
                continue
            needed = _FRAME_HEADER_BYTES - len(self._header)
            self._header += data[position : position + needed]
            position += needed
            if len(self._header) == _FRAME_HEADER_BYTES:
                self._skip = int.from_bytes(self._header[:3], "big")
                if self._skip > _MAX_FRAME_BYTES:
                    raise FloodDetected("an HTTP/2 frame over its limit")
                self._data_bytes += self._skip if self._header[3] == _DATA else 0
                self._header = b""
                self._frames += 1
        if self._frames > self._allowed + self._data_bytes // _BYTES_PER_FRAME:
            raise FloodDetected("more HTTP/2 frames than its responses need")


def check_pieces(pieces: int, received: int) -> None:
    """Raise FloodDetected if a body comes in pieces of a few bytes each, which cost more than they bring."""
    if pieces > _FIRST_PIECES + received // _BYTES_PER_PIECE:
        raise FloodDetected("a body in too many small pieces")


class SocketByteStream(ByteStream):
    """Owns the socket. Used by one task at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        """The next bytes. Raises anyio.EndOfStream, anyio.BrokenResourceError."""
        await asyncio.sleep(0)  # a socket that is always readable must not keep the loop
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, min(max_bytes, READ_BYTES))
        except (OSError, ValueError) as error:  # a closed socket has no number
            raise anyio.BrokenResourceError from error
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Send all bytes. Raises anyio.BrokenResourceError."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, item)
        except (OSError, ValueError) as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self._socket.close()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.raw_socket: lambda: self._socket}


class NetworkStream(httpcore.AsyncNetworkStream):
    """A connected socket, with or without TLS."""

    def __init__(self, stream: ByteStream, meter: ReadMeter) -> None:
        self._stream = stream
        self.meter = meter

    @classmethod
    def from_socket(cls, connected: socket.socket) -> "NetworkStream":
        """A stream over a connected socket, which it owns."""
        return cls(SocketByteStream(connected), HeadMeter())

    @property
    def is_http2(self) -> bool:
        """Whether the server chose HTTP/2."""
        return self._stream.extra(TLSAttribute.alpn_protocol, None) == HTTP2

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - requests have a deadline
        """The next bytes; empty at the end. Raises httpcore.ReadError, FloodDetected."""
        try:
            data = await self._stream.receive(min(max_bytes, READ_BYTES))
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise httpcore.ReadError from error
        self.meter.count(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send all bytes. Raises httpcore.WriteError."""
        if not buffer:
            return
        try:
            await self._stream.send(buffer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise httpcore.WriteError from error

    async def aclose(self) -> None:
        """Close the connection without waiting for the other side."""
        await anyio.aclose_forcefully(self._stream)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None  # noqa: ARG002
    ) -> "NetworkStream":  # fmt: skip
        """The same connection with TLS. Raises OSError, of which ssl.SSLError is one; the connection is then closed."""
        try:
            wrapped = await TLSStream.wrap(
                self._stream, hostname=server_hostname, ssl_context=ssl_context, standard_compatible=False,
                server_side=False,
            )  # fmt: skip
        except BaseException as error:
            await anyio.aclose_forcefully(self._stream)
            if isinstance(error, anyio.EndOfStream | anyio.BrokenResourceError | anyio.ClosedResourceError):
                raise ConnectionResetError(errno.ECONNRESET, "closed during the handshake") from error
            raise
        secure = NetworkStream(wrapped, HeadMeter())
        if secure.is_http2:
            secure.meter = FrameMeter()
        return secure

    @property
    def _has_unread(self) -> bool:
        """Whether bytes wait that were received, but not decrypted."""
        return isinstance(self._stream, TLSStream) and self._stream._read_bio.pending > 0

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: whether bytes, or the end, can be read now; and the TLS object."""
        if info == "ssl_object":
            return self._stream.extra(TLSAttribute.ssl_object, None)
        if info == "is_readable":
            return self._has_unread or _is_readable(self._stream.extra(SocketAttribute.raw_socket, None))
        return None


def _is_readable(connected: socket.socket | None) -> bool:
    """Whether the socket has bytes to read, or is closed by the other side."""
    number = -1 if connected is None else connected.fileno()
    if number < 0:
        return True
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
