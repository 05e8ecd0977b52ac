"""Has each request wait for its turn at its host, and reports its response."""

import httpx

from engine.http.exchange import WireResponse, send_by, terms_of


class HostTurnTransport(httpx.AsyncBaseTransport):
    """Requests without a turn are sent at once."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        turn = terms_of(request).turn
        if turn is None:
            return await send_by(self._inner, request)
        await turn.begin()
        response = await send_by(self._inner, request)
        turn.end(response.fetched)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
