"""Has each request wait for its turn at its host, and reports its response."""

import httpx

from crawl_engine.http.errors import StaleConnection
from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireResponse


class HostTurnTransport(httpx.AsyncBaseTransport):
    """Requests without a turn are sent at once. What a stale connection swallowed is sent again, in a turn of its own.

    A server may close a kept connection at any moment (RFC 9112, 9.3.1).
    """

    def __init__(self, inner: RequestTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        turn = request.terms.turn
        if turn is not None:
            await turn.begin()
        if request.terms.sign is not None:
            request.terms.sign(request)
        try:
            response = await self._inner.handle_async_request(request)
        except StaleConnection:
            if turn is not None:
                await turn.begin_again()
            request.is_repeated = True
            if request.terms.sign is not None:
                request.terms.sign(request)
            response = await self._inner.handle_async_request(request)
        if turn is not None:
            turn.end(response.fetched)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
