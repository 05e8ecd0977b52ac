"""Reads the body of a response within limits of time and size and the node's budget."""

import asyncio
from time import perf_counter

import httpx

from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.deadline import Deadline, Deadlines
from crawl_engine.http.decompress import decompress_start, open_decompressor
from crawl_engine.http.errors import FetchFailed, NoRoom
from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireBody, WireResponse
from crawl_engine.http.rate_limit import LIMITING_STATUSES, RateLimit, read_rate_limit
from crawl_engine.http.response import (
    FILE_STATUSES,
    FetchResponse,
    decode_header,
    decode_headers,
    join_values,
    redirect_target,
)
from crawl_engine.model.retry_policy import REDIRECT_STATUSES

UNAUTHORIZED = 401
_SIGNATURE_STATUSES = frozenset({UNAUTHORIZED, 403, 429})
"""The statuses of answers that may ask for a signature."""
_MAX_DRAINED_BODY = 64 * 1024
"""Bytes of the body of a redirect or challenge to read and discard, to keep the connection. A longer body closes it."""


class BodyTransport(httpx.AsyncBaseTransport):
    """Gives whole responses, with the deadline of each request."""

    def __init__(self, inner: RequestTransport, *, deadline: float, max_body: int) -> None:
        """`deadline`: seconds for a whole request. `max_body`: bytes of a body, both as sent and decompressed."""
        self._inner = inner
        self._deadlines = Deadlines(deadline)
        self._max_body = max_body

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        """Raises FetchFailed; NoRoom if the body waits for room longer than the deadline in all."""
        assert isinstance(request, OutgoingRequest)
        start = perf_counter()
        wait = _ShareWait(request.terms.share, self._deadlines.start())
        content = b""
        try:
            with wait.deadline:
                response = await self._inner.handle_async_request(request)
                try:
                    fetched = await self._read(request, response, wait, start)
                except BaseException:
                    response.body.close()
                    raise
                content = fetched.body
        except TimeoutError:
            raise FetchFailed(f"timeout after {self._deadlines.seconds:g} s", kind="timeout", retryable=True) from None
        finally:
            wait.end(kept=bool(content))
        response.fetched = fetched
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _read(
        self, request: OutgoingRequest, response: WireResponse, wait: "_ShareWait", start: float
    ) -> FetchResponse:
        terms, pairs, status = request.terms, response.raw_headers, response.status_code
        headers = decode_headers(pairs)
        named = dict(headers)
        if "content-encoding" in named:
            named["content-encoding"] = decode_header(join_values(pairs, b"content-encoding"))
        location = problem = answer = requested = None
        if status in REDIRECT_STATUSES:
            raw = {name.lower(): value for name, value in pairs}
            location, problem = redirect_target(status, raw.get(b"location"), request.target, request.route)
        limit = RateLimit()
        if status in LIMITING_STATUSES or "retry-after" in named:
            limit = read_rate_limit(status, headers)
        if terms.answer_challenge is not None and status == UNAUTHORIZED:
            answer = terms.answer_challenge(pairs)
        if answer is None and terms.find_requested is not None and status in _SIGNATURE_STATUSES:
            requested = terms.find_requested(pairs)
        body, download = response.body, terms.download
        if download is not None:
            elapsed = perf_counter() - start
            content = await download.read(request.target, status, named, body, wait.deadline)
        else:
            is_drained = location is not None or answer is not None or requested is not None
            encoding = named.get("content-encoding")
            content = await self._read_body(body, status, encoding, wait, is_drained, terms.read_at_most)
            elapsed = perf_counter() - start - wait.seconds
        return FetchResponse(
            url=terms.url,
            status=status,
            headers=headers,
            body=content,
            received=body.received if download is None else download.received or body.received,
            elapsed=elapsed,
            content_type=named.get("content-type", ""),
            location=location,
            location_problem=problem,
            challenge_answer=answer,
            requested_signature=requested,
            is_signed=terms.sign is not None,
            retry_after=limit.wait,
            exceeds_rate=limit.is_exceeded,
            has_surplus=body.has_surplus,
            is_file=download is not None and status in FILE_STATUSES,
            file_problem=None if download is None else download.problem,
        )

    async def _read_body(
        self,
        body: WireBody,
        status: int,
        encoding: str | None,
        wait: "_ShareWait",
        is_drained: bool,
        read_at_most: int | None,
    ) -> bytes:
        """The body, decompressed; empty for a redirect, and for a challenge that is answered.

        For an error status a failure to read it leaves it empty: the status matters more.
        """
        try:
            if is_drained:
                await body.read(_MAX_DRAINED_BODY, hold=wait.hold)
                return b""
            if read_at_most is not None and status < 300:
                start = await body.read_start(read_at_most)
                return start if encoding is None else decompress_start(start, encoding, read_at_most)
            decompressor = None if encoding is None else open_decompressor(encoding, self._max_body)
            return await body.read(self._max_body, decompressor=decompressor, hold=wait.hold)
        except FetchFailed:
            if is_drained or status >= 400:
                body.close()
                return b""
            raise


class _ShareWait:
    """Grows the share of one response's body; stops its deadline while it waits for room."""

    __slots__ = ("_share", "deadline", "seconds")

    def __init__(self, share: BodyShare | None, deadline: Deadline) -> None:
        self._share = share
        self.deadline = deadline
        self.seconds = 0.0
        """Time waited."""

    async def hold(self, count: int) -> None:
        """Hold further bytes; wait until there is room for them. Raises NoRoom if it waits longer than a request may.

        A waiting body keeps its bytes, and so keeps others waiting.
        """
        share = self._share
        if share is None or share.try_grow(count):
            return
        start, left = perf_counter(), self.deadline.pause()
        try:
            async with asyncio.timeout(self.deadline.seconds - self.seconds):
                await share.grow(count)
        except TimeoutError:
            raise NoRoom from None
        self.seconds += perf_counter() - start
        self.deadline.resume(left)

    def end(self, *, kept: bool) -> None:
        """Note that the body is complete, or, unless it is kept, that it was dropped."""
        if self._share is None:
            return
        if kept:
            self._share.finish_reading()
        else:
            self._share.release()
