"""Frames on the socket between two processes of ours: a JSON header, and bytes. Never pickles."""

import socket
import struct
from collections.abc import Mapping
from typing import Any

import orjson

PREFIX = struct.Struct("<II")
"""Lengths of the header and of the bytes behind it."""


def encode_frame(header: Mapping[str, Any], body: bytes = b"") -> list[bytes]:
    """A frame as the pieces to write."""
    text = orjson.dumps(header)
    return [PREFIX.pack(len(text), len(body)) + text, body] if body else [PREFIX.pack(len(text), 0) + text]


def receive_frame(connection: socket.socket) -> tuple[dict[str, Any], bytes] | None:
    """The next frame of a blocking socket; None: the other side has closed it."""
    prefix = _receive(connection, PREFIX.size)
    if prefix is None:
        return None
    header_size, body_size = PREFIX.unpack(prefix)
    header, body = _receive(connection, header_size), _receive(connection, body_size)
    return None if header is None or body is None else (orjson.loads(header), body)


def _receive(connection: socket.socket, size: int) -> bytes | None:
    buffer = bytearray(size)
    view, received = memoryview(buffer), 0
    while received < size:
        count = connection.recv_into(view[received:])
        if not count:
            return None
        received += count
    return bytes(buffer)
