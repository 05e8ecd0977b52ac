"""Frames between two processes of ours: a number, a JSON header, and bytes. Never pickles."""

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

PREFIX = struct.Struct("<III")
"""The number of the question, and the lengths of the header and of the bytes behind it."""
Encodable = Mapping[str, Any] | bytes
"""A header, or its JSON."""


class InvalidAnswer(Exception):
    """A process sent an invalid answer: it counts as dead."""


def encode_frame(header: Encodable, body: bytes = b"", number: int = 0) -> list[bytes]:
    """A frame as the pieces to write."""
    text = header if isinstance(header, bytes) else orjson.dumps(header)
    start = PREFIX.pack(number, len(text), len(body)) + text
    return [start, body] if body else [start]


def serve(connection: socket.socket, answer: Callable[[dict[str, Any], bytes], tuple[Encodable, bytes]]) -> None:
    """Answer one question after another, until the client closes the socket."""
    with connection.makefile("rb") as reader:
        while len(prefix := reader.read(PREFIX.size)) == PREFIX.size:
            number, header_size, body_size = PREFIX.unpack(prefix)
            header, body = reader.read(header_size), reader.read(body_size)
            if len(header) < header_size or len(body) < body_size:
                return
            given = answer(orjson.loads(header), body)
            del body
            pieces = encode_frame(*given, number)
            del given
            while pieces:
                connection.sendall(pieces.pop(0))
