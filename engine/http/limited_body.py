"""What the bodies of all transports do: read with limits, or stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

from engine.http.decompress import Decompressor

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


class Download(Protocol):
    """What a request for a file adds to its headers, and what reads the answer."""

    received: int
    """Bytes of the body, as sent."""
    problem: str | None
    """Why the answer is not the file; the rest of it is not read."""

    def request_headers(self, url: str) -> dict[str, str]:
        """The headers to add to the request to this URL."""

    async def read(
        self, url: str, status: int, headers: Mapping[str, str], body: LimitedBody, limit: asyncio.Timeout
    ) -> bytes:
        """Read a response of any status; returns the beginning of its content. `headers`: names in lower case."""
