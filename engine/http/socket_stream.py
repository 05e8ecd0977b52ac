"""A connected socket as a stream that holds nothing back: what is not read stays with the system, and stops the server.

The streams of asyncio and anyio read ahead. That of anyio does so without a limit for a socket that it is given.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute

READ_BYTES = 16 * 1024
"""Of one read: what a hostile server packs into it is parsed without letting other tasks run."""


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
        """Tell the other side that nothing follows."""
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the socket."""
        self._socket.close()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The socket."""
        return {SocketAttribute.raw_socket: lambda: self._socket}
