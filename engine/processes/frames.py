"""Frames on the socket between two processes of ours: a JSON header, and bytes. Never pickles."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

PREFIX = struct.Struct("<II")
"""Lengths of the header and of the bytes behind it."""


class FrameTooLarge(Exception):
    """A frame has more bytes than it may have."""


def encode_frame(header: Mapping[str, Any] | bytes, body: bytes = b"") -> list[bytes]:
    """A frame as the pieces to write. `header`: a mapping, or its JSON."""
    text = header if isinstance(header, bytes) else orjson.dumps(header)
    return [PREFIX.pack(len(text), len(body)) + text, body] if body else [PREFIX.pack(len(text), 0) + text]


def receive_frame(
    recv_into: Callable[[memoryview], int], max_bytes: float = float("inf")
) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None: the other side has closed the socket. Raises FrameTooLarge.

    `recv_into`: as that of a blocking socket.
    """
    prefix = _receive(recv_into, PREFIX.size)
    if prefix is None:
        return None
    header_size, body_size = PREFIX.unpack(prefix)
    if header_size + body_size > max_bytes:
        raise FrameTooLarge
    header, body = _receive(recv_into, header_size), _receive(recv_into, body_size)
    return None if header is None or body is None else (orjson.loads(header), body)


def _receive(recv_into: Callable[[memoryview], int], size: int) -> bytes | None:
    buffer = bytearray(size)
    view, received = memoryview(buffer), 0
    while received < size:
        count = recv_into(view[received:])
        if not count:
            return None
        received += count
    return bytes(buffer)
