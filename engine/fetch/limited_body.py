"""What the bodies of all transports do: read with limits, or stop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from engine.fetch.decompress import Decompressor

HoldBytes = Callable[[int], Awaitable[None]]
"""Waits until that many further bytes may be kept in memory."""


class LimitedBody(Protocol):
    """The body of a response, as sent."""

    received: int
    """Bytes read, as sent."""

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept. Raises `FetchFailed` if the body is truncated, cannot be
        decompressed, or exceeds `limit` bytes, as sent or decompressed; then stops reading.
        """

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file."""

    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""
