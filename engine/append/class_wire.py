"""Frames between the appender and the process of a users' class: a JSON header, and bytes."""

import struct
from typing import Any

import orjson

PREFIX = struct.Struct(">IQ")
"""The sizes of header and body."""


def encode_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame."""
    encoded = orjson.dumps(header)
    return b"".join((PREFIX.pack(len(encoded), len(body)), encoded, body))
