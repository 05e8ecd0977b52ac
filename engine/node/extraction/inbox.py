"""Reads the frames of a node: one read of the socket for all that has arrived."""

import select
import socket
from io import BytesIO
from typing import Any

import orjson

from engine.node.tuning import trim_heap
from engine.processes.frames import PREFIX
from engine.store.pages.body import Body

_BUFFER_BYTES = 131_072
_TRIM_DELAY = 0.2


class Inbox:
    """The receiving side of a socket. Used by one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._start = self._end = 0
        self._trims_when_idle = False

    def trim_when_idle(self) -> None:
        """Return freed memory to the system if nothing arrives for a moment."""
        self._trims_when_idle = True

    def read_header(self) -> tuple[int, dict[str, Any], int] | None:
        """The number of a question, its header, and its bytes behind that; None: the node has closed the socket."""
        prefix = self._take(PREFIX.size)
        if prefix is None:
            return None
        number, header_size, body_size = PREFIX.unpack(prefix)
        header = self._take(header_size)
        return None if header is None else (number, orjson.loads(header), body_size)

    def read_body(self, size: int) -> Body | None:
        """The bytes behind a header, in memory once; None: they do not fit, and are skipped."""
        try:
            if size <= self._end - self._start:
                self._start += size
                return Body(bytes(self._buffer[self._start - size : self._start]))
            buffer = BytesIO()
            buffer.seek(size - 1)
            buffer.write(b"\0")
        except MemoryError:
            self._skip(size)
            return None
        with buffer.getbuffer() as view:
            if not self._read_into(view):
                raise ConnectionResetError
        return Body(buffer.getvalue())

    def _take(self, size: int) -> memoryview | None:
        """Bytes, valid until the next call; None: the node has closed the socket."""
        if size <= self._end - self._start:
            self._start += size
            return self._buffer[self._start - size : self._start]
        view = memoryview(bytearray(size))
        return view if self._read_into(view) else None

    def _skip(self, size: int) -> None:
        while size:
            if not self._fill():
                raise ConnectionResetError
            skipped = min(size, self._end - self._start)
            self._start += skipped
            size -= skipped

    def _read_into(self, view: memoryview) -> bool:
        """Fill the view; False: the node has closed the socket."""
        filled = 0
        while (missing := len(view) - filled) > 0:
            if self._start == self._end and missing >= len(self._buffer):
                count = self._receive(view[filled:])
            elif self._fill():
                count = min(missing, self._end - self._start)
                view[filled : filled + count] = self._buffer[self._start : self._start + count]
                self._start += count
            else:
                return False
            if not count:
                return False
            filled += count
        return True

    def _fill(self) -> bool:
        """Have something in the buffer; False: the node has closed the socket."""
        if self._start == self._end:
            self._start, self._end = 0, self._receive(self._buffer)
        return self._end > 0

    def _receive(self, view: memoryview) -> int:
        # not by a timeout of the socket: an answer may have to wait for the node
        if self._trims_when_idle and not select.select([self._connection], [], [], _TRIM_DELAY)[0]:
            self._trims_when_idle = False
            trim_heap()
        return self._connection.recv_into(view)
