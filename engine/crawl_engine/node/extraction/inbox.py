"""Reads the frames of a node: one read of the socket for all that has arrived."""

import io
import select
import socket
from typing import Any

import orjson

from crawl_engine.node.tuning import trim_heap
from crawl_engine.processes.frames import PREFIX
from crawl_engine.store.pages.body import Body

_BUFFER_BYTES = 131_072
_TRIM_DELAY = 0.2


class Inbox:
    """The receiving side of a socket. Used by one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._source = _Source(connection, "r")
        self._reader = io.BufferedReader(self._source, _BUFFER_BYTES)

    def trim_when_idle(self) -> None:
        """Return freed memory to the system if nothing arrives for a moment."""
        self._source.trims_when_idle = True

    def read_header(self) -> tuple[int, dict[str, Any], int] | None:
        """The number of a question, its header, and its bytes behind that; None: the node has closed the socket."""
        prefix = self._reader.read(PREFIX.size)
        if len(prefix) < PREFIX.size:
            return None
        number, header_size, body_size = PREFIX.unpack(prefix)
        header = self._reader.read(header_size)
        return None if len(header) < header_size else (number, orjson.loads(header), body_size)

    def read_body(self, size: int) -> Body | None:
        """The bytes behind a header, in memory once; None: they do not fit, and are skipped."""
        try:
            content = self._read(size)
        except MemoryError:  # raised before anything is read
            for start in range(0, size, _BUFFER_BYTES):
                self._read(min(_BUFFER_BYTES, size - start))
            return None
        return Body(content)

    def _read(self, size: int) -> bytes:
        content = self._reader.read(size)
        if len(content) < size:
            raise ConnectionResetError
        return content


class _Source(socket.SocketIO):
    """Reads the socket, and trims the heap before a wait if it is asked to."""

    trims_when_idle = False

    def readinto(self, buffer: Any) -> int | None:
        # not by a timeout of the socket: an answer may have to wait for the node
        if self.trims_when_idle and not select.select([self.fileno()], [], [], _TRIM_DELAY)[0]:
            self.trims_when_idle = False
            trim_heap()
        return super().readinto(buffer)
