"""One connection for httpcore: reads in small steps that a meter counts, and turns into TLS where asked."""

import errno
import select
import socket
import ssl
from typing import Any

import anyio
import httpcore
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from engine.http.read_meter import FrameMeter, HeadMeter, ReadMeter
from engine.http.socket_stream import READ_BYTES, SocketByteStream

HTTP2 = "h2"


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
