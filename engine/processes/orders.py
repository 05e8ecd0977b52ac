"""What a template and its clients tell each other: orders with open files, and reports."""

import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

NOT_FORKED = -1
"""Wait status of a process that could not be forked."""
_LENGTH = struct.Struct("<I")
_REPORT = struct.Struct("<BxxxIqq")
"""Whether the process started, its number, its pid or wait status, its greatest resident memory in bytes."""
_READ_BYTES, _MAX_FILES = 65_536, 16


class StartOrder(Struct, frozen=True, kw_only=True, tag="start"):
    """Start a process. Its open files come with the order, in the order of `files`."""

    number: int
    entry: str
    """`module:function`, which is called with a ChildStart; the exit code is what it returns."""
    name: str
    """What `top` shows."""
    arguments: Mapping[str, Any]
    files: tuple[str, ...] = ()
    own: bool = False
    """The process is a child of the client, which waits for it, and leads a session."""
    leads_session: bool = False
    """It leads a session, which ends with it."""


class AdoptOrder(Struct, frozen=True, tag="adopt"):
    """Serve a further client, whose socket comes with the order."""

    files: tuple[str, ...] = ("client",)


class KillOrder(Struct, frozen=True, tag="kill"):
    """Kill a process that has not ended."""

    number: int
    files: tuple[str, ...] = ()


Order = StartOrder | AdoptOrder | KillOrder


class Started(Struct, frozen=True):
    """A process runs."""

    number: int
    pid: int


class Ended(Struct, frozen=True):
    """How a process ended: `status` as from `wait`, its greatest resident memory in bytes."""

    number: int
    status: int
    memory: int

    @property
    def cause(self) -> str:
        """`exit 3`, `signal 9`, or why it was not started."""
        return describe_status(self.status)


def describe_status(status: int) -> str:
    """`exit 3`, `signal 9`, or why a process was not started, from its wait status."""
    if status == NOT_FORKED:
        return "no memory or processes left to start it"
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit {code}"


_decoder: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)


def send_order(connection: socket.socket, order: Order, files: Sequence[int] = ()) -> None:
    """Send an order with open files. Raises OSError if the other side is gone."""
    text = msgspec.json.encode(order)
    data = _LENGTH.pack(len(text)) + text
    sent = socket.send_fds(connection, [data], files) if files else connection.send(data)
    connection.sendall(data[sent:])


class OrderReader:
    """The orders that arrive at one socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()
        self._files: deque[int] = deque()

    def receive(self) -> list[tuple[Order, list[int]]] | None:
        """Wait for data; the orders that are complete, with their open files. None: the client is gone."""
        try:
            data, files, _, _ = socket.recv_fds(self._connection, _READ_BYTES, _MAX_FILES)
        except OSError:
            return None
        for fd in files:
            os.set_inheritable(fd, False)
        self._files.extend(files)
        if not data:
            return None
        self._received += data
        orders = []
        while (order := self._take()) is not None:
            orders.append((order, [self._files.popleft() for _ in order.files]))
        return orders

    def _take(self) -> Order | None:
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        order = _decoder.decode(bytes(self._received[_LENGTH.size : end]))
        del self._received[:end]
        return order


def send_report(connection: socket.socket, report: Started | Ended) -> None:
    """Tell a client of its process. A client that is gone needs no report."""
    started = isinstance(report, Started)
    value, memory = (report.pid, 0) if isinstance(report, Started) else (report.status, report.memory)
    with contextlib.suppress(OSError):
        connection.sendall(_REPORT.pack(started, report.number, value, memory))


class ReportReader:
    """The reports that arrive at one socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""

    def receive(self) -> list[Started | Ended]:
        """The reports that are there, without waiting. Raises EOFError when the template is gone."""
        try:
            data = self._connection.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._received += data
        whole = len(self._received) // _REPORT.size * _REPORT.size
        reports, self._received = self._received[:whole], self._received[whole:]
        return [
            Started(number, value) if started else Ended(number, value, memory)
            for started, number, value, memory in _REPORT.iter_unpack(reports)
        ]
