"""Reads the body of a response of httpcore within limits."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from io import BytesIO

import httpcore

from engine.http.decompress import Decompressor, body_too_large
from engine.http.limited_body import HoldBytes
from engine.http.read_meter import check_pieces

_PIECES_BETWEEN_PAUSES = 256
"""After so many pieces other tasks run: a read may hold thousands of small ones."""


class StreamBody:
    """A `LimitedBody` of a response of httpcore."""

    def __init__(
        self,
        response: httpcore.Response,
        *,
        on_complete: Callable[[], None],
        on_abandoned: Callable[[], None],
        to_failure: Callable[[Exception], Exception],
    ) -> None:
        """`on_complete` or `on_abandoned` is called once, and takes the connection back."""
        assert isinstance(response.stream, AsyncIterable)
        self._response = response
        self._pieces: AsyncIterator[bytes] = aiter(response.stream)
        self._on_complete = on_complete
        self._on_abandoned = on_abandoned
        self._to_failure = to_failure
        self._ended = False
        self._count = 0
        self.received = 0
        """Bytes read, as sent."""

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept. Raises `FetchFailed` if the body is truncated, cannot be
        decompressed, or exceeds `limit` bytes, as sent or decompressed; the caller then closes it.
        """
        declared = _declared_length(self._response)
        if declared is not None and declared > limit:
            raise body_too_large(limit)
        body = BytesIO()
        while (piece := await self._next_piece(limit)) is not None:
            if decompressor is None:
                await hold(len(piece))
                body.write(piece)
                continue
            for part in decompressor.feed(piece):
                await hold(len(part))
                body.write(part)
        if decompressor is not None and self.received:
            for part in decompressor.finish():
                await hold(len(part))
                body.write(part)
        await self._complete()
        return body.getvalue()

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""
        body = BytesIO()
        while self.received < limit:
            piece = await self._next_piece(None)
            if piece is None:
                await self._complete()
                break
            body.write(piece)
        self.close()
        return body.getvalue()[:limit]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file. Raises `FetchFailed`."""
        while (piece := await self._next_piece(None)) is not None:
            if piece:
                yield piece
        await self._complete()

    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""
        if not self._ended:
            self._ended = True
            self._on_abandoned()

    async def _next_piece(self, limit: int | None) -> bytes | None:
        """The next bytes as sent, which may be none; None at the end."""
        self._count += 1
        if self._count % _PIECES_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        try:
            piece = await anext(self._pieces, None)
            check_pieces(self._count, self.received)
        except Exception as error:  # whatever a hostile body makes of the libraries
            raise self._to_failure(error) from error
        self.received += len(piece or b"")
        if limit is not None and self.received > limit:
            raise body_too_large(limit)
        return piece

    async def _complete(self) -> None:
        try:
            await self._response.aclose()
        except BaseException:
            self.close()
            raise
        self._ended = True
        self._on_complete()


def _declared_length(response: httpcore.Response) -> int | None:
    """The Content-Length, if it is one."""
    for name, value in response.headers:
        if name.lower() == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else None
    return None
