"""Frames over a socket on an event loop: reads whole messages, writes without copying."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

from engine.processes.frames import PREFIX

_READ_BYTES = 65_536
_COPIED_BYTES = 16_384
"""A message of at most so many bytes is copied, so that the buffer serves the next one."""


class FrameConnection(asyncio.BufferedProtocol):
    """Calls `on_answer` with the header and the bytes of each message, and `on_closed` once, at the end."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        max_bytes: int,
        on_size: Callable[[int], bool],
        on_answer: Callable[[memoryview, memoryview], None],
        on_closed: Callable[[], None],
    ) -> None:
        """`max_bytes`: of one message. `on_size` gets the size of a message that arrives in pieces.

        If it returns False, reading stops until `resume`.
        """
        self._max_bytes = max_bytes
        self._on_size = on_size
        self._on_answer = on_answer
        self._on_closed = on_closed
        self._transport: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []
        self._buffer = bytearray(_READ_BYTES)
        self._filled = 0
        self._needed = PREFIX.size
        self._announced = False
        self.received = 0
        """Bytes read so far."""
        connection.setblocking(False)
        self._opening = asyncio.get_running_loop().create_task(self._open(connection))

    def write(self, pieces: Sequence[bytes]) -> None:
        if self._transport is None:
            self._unsent += pieces
        else:
            self._transport.writelines(pieces)

    def resume(self) -> None:
        if self._transport is not None:
            self._reads().resume_reading()

    def close(self) -> None:
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _open(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=connection)
        except OSError:
            connection.close()
            self._on_closed()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is not a subclass
        if self._unsent:
            self._transport.writelines(self._unsent)
            self._unsent = []

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._filled == len(self._buffer):
            grown = bytearray(max(len(self._buffer) + _READ_BYTES, self._needed))  # its size was admitted
            grown[: self._filled] = self._buffer  # not enlarged in place: a view of it may still exist
            self._buffer = grown
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self.received += nbytes
        while self._filled >= self._needed:
            header_size, body_size = PREFIX.unpack_from(self._buffer)
            if header_size + body_size > self._max_bytes:
                self._abort()
                return
            self._needed = PREFIX.size + header_size + body_size
            if self._filled < self._needed:
                self._announce(header_size + body_size)
                return
            self._deliver(header_size)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._on_closed()

    def _announce(self, size: int) -> None:
        if not self._announced:
            self._announced = True
            if not self._on_size(size) and self._transport is not None:
                self._reads().pause_reading()

    def _reads(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self._transport)

    def _deliver(self, header_size: int) -> None:
        """Pass on the first message; what follows it moves to the front."""
        end, header_end = self._needed, PREFIX.size + header_size
        rest = self._buffer[end : self._filled]
        if end <= _COPIED_BYTES:
            message = memoryview(bytes(self._buffer[:end]))
        else:  # memory may refer to the message for long
            message = memoryview(self._buffer)
            self._buffer = bytearray(max(_READ_BYTES, len(rest)))
        self._buffer[: len(rest)] = rest
        self._filled, self._needed = len(rest), PREFIX.size
        self._announced = False
        self._on_answer(message[PREFIX.size : header_end], message[header_end:end])

    def _abort(self) -> None:
        """Treat a message that exceeds every limit as an invalid answer."""
        self._filled, self._needed = 0, PREFIX.size
        empty = memoryview(b"")
        self._on_answer(empty, empty)
        if self._transport is not None:
            self._transport.abort()
