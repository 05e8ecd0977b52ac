"""Adds the cookies of a site to its requests, and keeps those of its responses."""

import httpx

from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireResponse


class CookieTransport(httpx.AsyncBaseTransport):
    """A request that waits has no cookies yet: this transport stands behind the host's turn."""

    def __init__(self, inner: RequestTransport, cookies: SessionCookies) -> None:
        self._inner = inner
        self._cookies = cookies

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        if request.terms.sends_cookies:
            self._cookies.set_cookie_header(request)
        response = await self._inner.handle_async_request(request)
        response.fetched.cookie_header = request.headers.get("Cookie", "")
        if request.terms.keeps_cookies:
            values = [value for name, value in response.fetched.headers if name == "set-cookie"]
            if values:
                response.fetched.changed_site = self._cookies.extract_cookies(request, values)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
