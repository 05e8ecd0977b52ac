"""What a template and its clients tell each other: orders with open files, and reports."""

import os
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

NOT_FORKED = -1
"""Wait status of a process that could not be forked."""
_LENGTH = struct.Struct("<I")
_READ_BYTES, _MAX_FILES = 65_536, 16


class ProcessKind(Struct, frozen=True):
    """What all processes of a kind have in common; see StartOrder."""

    entry: str
    name: str
    leads_session: bool = False


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

    files: ClassVar[Sequence[str]] = ("client",)


class KillOrder(Struct, frozen=True, tag="kill"):
    """Kill a process that has not ended."""

    number: int
    files: ClassVar[Sequence[str]] = ()


class Ping(Struct, frozen=True, tag="ping"):
    """Answer this with the same message: the template is alive."""

    files: ClassVar[Sequence[str]] = ()


class Started(Struct, frozen=True, tag="started"):
    """A process runs."""

    number: int
    pid: int
    files: ClassVar[Sequence[str]] = ()


class Ended(Struct, frozen=True, tag="ended"):
    """How a process ended: `status` as from `wait`, its greatest resident memory in bytes."""

    number: int
    status: int
    memory: int
    files: ClassVar[Sequence[str]] = ()

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


Report = Started | Ended
Message = StartOrder | AdoptOrder | KillOrder | Ping | Report
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def send_message(connection: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send a message with open files. Raises OSError if the other side is gone."""
    text = msgspec.json.encode(message)
    data = _LENGTH.pack(len(text)) + text
    sent = socket.send_fds(connection, [data], files) if files else connection.send(data)
    connection.sendall(data[sent:])


class MessageReader:
    """The messages that arrive at one socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()
        self._files: deque[int] = deque()

    def receive(self) -> list[tuple[Message, list[int]]] | None:
        """Wait for data; the messages that are complete, with their open files. None: the other side is gone."""
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
        messages = []
        while (message := self._take()) is not None:
            messages.append((message, [self._files.popleft() for _ in message.files]))
        return messages

    def _take(self) -> Message | None:
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        message = _decoder.decode(bytes(self._received[_LENGTH.size : end]))
        del self._received[:end]
        return message
