"""Bounds what a server may send besides a body: heads and interim responses, frames of HTTP/2, tiny pieces."""

from typing import Protocol

_MAX_HEAD_BYTES = 128 * 1024
"""Of one response, with all interim ones (1xx); h11 takes at most 100 KiB for a single head."""
_FRAME_HEADER_BYTES = 9
_DATA = 0
_MAX_FRAME_BYTES = 2**14
"""The limit of RFC 9113 as long as no other is agreed on; the library would keep 16 MB before it looks."""
_FIRST_FRAMES = 1_000
_FRAMES_PER_EXCHANGE = 500
"""A server sends one frame of headers, and a few that update windows or settings."""
_BYTES_PER_FRAME = 256
"""Further frames that a long body pays for; usual ones are 16 KiB long."""
_FIRST_PIECES = 10_000
_BYTES_PER_PIECE = 64


class FloodDetected(Exception):
    """A server sends more than any response needs. The text says what."""


class ReadMeter(Protocol):
    """Counts what is read from one connection, which carries one exchange at a time."""

    def start_exchange(self) -> None:
        """Note that a request is about to be sent."""

    def end_head(self) -> None:
        """Note that the head of its response is complete."""

    def count(self, data: bytes) -> None:
        """Count bytes that were read. Raises FloodDetected."""


class HeadMeter:
    """Of HTTP/1.1: bounds the bytes in front of a body."""

    def __init__(self) -> None:
        self._left: int | None = None

    def start_exchange(self) -> None:
        """Note that a request is about to be sent."""
        self._left = _MAX_HEAD_BYTES

    def end_head(self) -> None:
        """Note that the head of its response is complete."""
        self._left = None

    def count(self, data: bytes) -> None:
        """Count bytes that were read. Raises FloodDetected."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise FloodDetected(f"more than {_MAX_HEAD_BYTES // 1024} KiB of headers and interim responses")


class FrameMeter:
    """Of HTTP/2: bounds the number of frames, of whatever type, known or not.

    The library answers each PING and SETTINGS, and keeps no count of empty DATA, of PRIORITY, of WINDOW_UPDATE or of
    interim HEADERS: without a bound a server could keep a node busy for a whole deadline, for a few bytes each.
    """

    def __init__(self) -> None:
        self._allowed = _FIRST_FRAMES
        self._frames = 0
        self._data_bytes = 0
        self._header = b""
        self._skip = 0

    def start_exchange(self) -> None:
        """Note that a request is about to be sent."""
        self._allowed += _FRAMES_PER_EXCHANGE

    def end_head(self) -> None:
        """Note that the head of its response is complete."""

    def count(self, data: bytes) -> None:
        """Count bytes that were read. Raises FloodDetected."""
        position, size = 0, len(data)
        while position < size:
            if self._skip:
                taken = min(self._skip, size - position)
                self._skip -= taken
                position += taken
                continue
            needed = _FRAME_HEADER_BYTES - len(self._header)
            self._header += data[position : position + needed]
            position += needed
            if len(self._header) == _FRAME_HEADER_BYTES:
                self._skip = int.from_bytes(self._header[:3], "big")
                if self._skip > _MAX_FRAME_BYTES:
                    raise FloodDetected("an HTTP/2 frame over its limit")
                self._data_bytes += self._skip if self._header[3] == _DATA else 0
                self._header = b""
                self._frames += 1
        if self._frames > self._allowed + self._data_bytes // _BYTES_PER_FRAME:
            raise FloodDetected("more HTTP/2 frames than its responses need")


def check_pieces(pieces: int, received: int) -> None:
    """Raise FloodDetected if a body comes in pieces of a few bytes each, which cost more than they bring."""
    if pieces > _FIRST_PIECES + received // _BYTES_PER_PIECE:
        raise FloodDetected("a body in too many small pieces")
