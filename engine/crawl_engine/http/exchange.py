"""What the transports of a request exchange: the request with its terms, the response, its body."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from io import BytesIO
from typing import Any, Protocol

import httpx
from msgspec import Struct
from multidict import CIMultiDict

from crawl_engine import urls
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.deadline import Deadline
from crawl_engine.http.decompress import Decompressor, body_too_large
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRoute, RequestedSignature

_PIECE_BYTES = 64 * 1024
"""Bytes of a body that are held, then read, in one piece."""
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
HoldBytes = Callable[[int], Awaitable[None]]
"""Waits until that many further bytes may be kept in memory."""


class HostTurn(Protocol):
    """The turns of one job at the host of its requests."""

    async def begin(self) -> None:
        """Wait until the next request may be sent."""

    async def begin_again(self) -> None:
        """Wait until a request that a stale connection swallowed may be sent again. It counts once."""

    def end(self, response: FetchResponse) -> None:
        """Note the response of the request."""


class WireBody(httpx.AsyncByteStream):
    """The body of a response, as sent."""

    declared: int | None = None
    """The Content-Length."""
    received = 0
    """Bytes read."""
    has_surplus = False
    """Whether more came than the body, which ends where its length says; known at its end."""

    @abstractmethod
    async def read_piece(self, size: int) -> bytes:
        """The next bytes, about `size` at most; empty at the end. Raises FetchFailed if the body is truncated."""

    @property
    @abstractmethod
    def at_end(self) -> bool:
        """Whether the end is known to be reached."""

    @abstractmethod
    def close(self) -> None:
        """Discard the rest: closes the connection unless the body was read completely."""

    async def aclose(self) -> None:
        self.close()

    async def read(self, limit: int, *, decompressor: Decompressor | None = None, hold: HoldBytes) -> bytes:
        """The whole body, decompressed. Releases the connection.

        `hold` is awaited before bytes are kept, except for a body of one piece; meanwhile full buffers stop the server.
        Raises `FetchFailed` if the body is truncated, cannot be decompressed, or exceeds `limit` bytes, as sent or
        decompressed; the caller then closes it.
        """
        if self.declared is not None and self.declared > limit:
            raise body_too_large(limit)
        piece = await self._read_within(limit, _PIECE_BYTES)
        if decompressor is not None:
            return await self._read_compressed(piece, limit, decompressor, hold)
        if self.at_end:
            return piece
        return await self._read_plain(piece, limit, hold)

    async def _read_plain(self, piece: bytes, limit: int, hold: HoldBytes) -> bytes:
        body = BytesIO()  # gives its bytes out without a copy
        held = _PIECE_BYTES
        await hold(held)
        while piece:
            body.write(piece)
            # Held before it is read: what has to wait stays in the buffers, so that the server waits, too.
            while self.received >= held and not self.at_end:
                held += _PIECE_BYTES
                await hold(_PIECE_BYTES)
            piece = await self._read_within(limit, held - self.received)
        return body.getvalue()

    async def _read_compressed(self, piece: bytes, limit: int, decompressor: Decompressor, hold: HoldBytes) -> bytes:
        body = BytesIO()
        while piece:
            for part in decompressor.feed(piece):
                await hold(len(part))
                body.write(part)
            piece = await self._read_within(limit, _PIECE_BYTES)
        for part in decompressor.finish() if self.received else ():
            await hold(len(part))
            body.write(part)
        return body.getvalue()

    async def _read_within(self, limit: int, size: int) -> bytes:
        """As `read_piece`; also raises FetchFailed if the body exceeds `limit` bytes."""
        piece = await self.read_piece(size)
        if self.received > limit:
            raise body_too_large(limit)
        return piece

    async def read_start(self, limit: int) -> bytes:
        """The first `limit` bytes, or the whole body if it is shorter. Raises `FetchFailed` if that is truncated."""
        parts = list[bytes]()
        while self.received < limit and (piece := await self.read_piece(_PIECE_BYTES)):
            parts.append(piece)
        self.close()
        return b"".join(parts)[:limit]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as sent, without a limit: for a body that goes to a file. Raises `FetchFailed`."""
        while piece := await self.read_piece(_PIECE_BYTES):
            yield piece


class Download(Protocol):
    """The additional headers of a request for a file, and the reader of its answer."""

    received: int
    """Bytes of the body, as sent."""
    problem: str | None
    """Why the answer is not the file; the rest of it is not read."""

    def request_headers(self, url: str) -> dict[str, str]:
        """The headers to add to the request to this URL."""

    async def read(
        self, url: str, status: int, headers: Mapping[str, str], body: WireBody, deadline: Deadline
    ) -> bytes:
        """Read a response of any status; returns the beginning of its content. `headers`: names in lower case.

        `deadline`: begins again as the file grows.
        """


class RequestTerms(Struct, kw_only=True):
    """What the transports of the chain need to know about a request."""

    url: str = ""
    """Without credentials, with variables not expanded."""
    exempt: bool = False
    """Whether the host may be at a guarded address."""
    find_exemption: Callable[[], bool] | None = None
    """Looks for the name of a host with a guarded address in the defs."""
    route: HostRoute | None = None
    turn: HostTurn | None = None
    middleware: "tuple[tuple[str, Any], ...]" = ()
    """Names and instances, the first outermost."""
    sends_cookies: bool = True
    keeps_cookies: bool = True
    read_at_most: int | None = None
    """Bytes of the body after which reading ends; a longer one is cut, not refused."""
    share: BodyShare | None = None
    download: Download | None = None
    answer_challenge: Callable[[tuple[tuple[bytes, bytes], ...]], str | None] | None = None
    """The `Authorization` that answers the headers of a 401."""
    sign: "Callable[[OutgoingRequest], None] | None" = None
    """Signs the request, each time that it is sent."""
    find_requested: Callable[[tuple[tuple[bytes, bytes], ...]], RequestedSignature | None] | None = None
    """The signature that the headers of a refusal ask for."""


class OutgoingRequest(httpx.Request):
    """An httpx request that carries the exact URL to send; httpx would re-encode it.

    It sets the public attributes itself: the constructor of `httpx.Request` adds headers.
    """

    route: str | None = None
    """The fragment of its URL that a browser goes to; None: its page is for no browser."""
    is_repeated = False
    """Whether a stale connection got it before: it is sent on a new one."""
    headers: CIMultiDict[str]  # type: ignore[assignment]  # for its cost; middleware gets those of httpx

    def __init__(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes, terms: RequestTerms | None = None
    ) -> None:
        self.method = method
        self.target = target
        """The URL as sent: normalized, without credentials or fragment, with all variables expanded."""
        self.headers = headers
        """Headers besides those of every request; all can be encoded in UTF-8."""
        self.body = body
        self.terms = terms or RequestTerms()

    @property
    def is_idempotent(self) -> bool:
        """Whether it may be sent twice (RFC 9110, 9.2.2)."""
        return self.method in _IDEMPOTENT

    def joined_headers(self) -> dict[str, str]:
        """The headers, names in lower case, those of one name as one list."""
        return {name.lower(): ", ".join(self.headers.getall(name)) for name in self.headers}

    @cached_property
    def url(self) -> httpx.URL:  # type: ignore[override]  # an attribute there
        """The URL for cookies; only its origin if httpx rejects a URL that browsers accept, such as a very long one."""
        try:
            return httpx.URL(self.target)
        except httpx.InvalidURL:
            return httpx.URL(urls.origin(self.target))


class WireResponse(httpx.Response):
    """A response whose body is read by the body transport.

    It sets the public attributes itself, as `OutgoingRequest` does: few responses need more than these.
    """

    fetched: FetchResponse
    """The whole response, from the body transport on."""

    def __init__(
        self, status: int, raw_headers: tuple[tuple[bytes, bytes], ...], body: WireBody, request: OutgoingRequest
    ) -> None:
        self.status_code = status
        self.raw_headers = raw_headers
        """Names and values as received, in order."""
        self.body = body
        self.request = request

    @cached_property
    def headers(self) -> httpx.Headers:  # type: ignore[override]  # an attribute there
        """The headers as httpx reads them."""
        return httpx.Headers(list(self.raw_headers))


class RequestTransport(Protocol):
    """A transport of the chain, which is an `httpx.AsyncBaseTransport`."""

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Send a request of the chain."""

    async def aclose(self) -> None:
        """Close all connections."""
