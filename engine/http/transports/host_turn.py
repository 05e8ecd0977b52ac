"""Has each request wait for its turn at its host, and reports its response."""

import httpx

from engine.http.exchange import OutgoingRequest, RequestTransport, WireResponse


class HostTurnTransport(httpx.AsyncBaseTransport):
    """Requests without a turn are sent at once."""

    def __init__(self, inner: RequestTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        turn = request.terms.turn
        if turn is None:
            return await self._inner.handle_async_request(request)
        await turn.begin()
        response = await self._inner.handle_async_request(request)
        turn.end(response.fetched)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
