"""Helpers of the tests of routes: sends requests through them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy
from tests.process.site import Page
from tests.unit.http.test_errors import Resolver


def echo(request: object) -> Page:
    return Page(f"<p>{request.path}</p>")  # type: ignore[attr-defined]


def through(proxy: ForwardProxy, **more: object) -> HostRoute:
    return HostRoute(proxies=(f"http://us:p%20w@127.0.0.1:{proxy.port}",), **more)  # type: ignore[arg-type]


def trusting(authority: Authority, *, http2: bool = False) -> HostRoute:
    return HostRoute(tls=TlsRule(ca=str(authority.path)), http2=http2)


def run(
    work: Callable[[Fetcher], Awaitable[object]],
    *,
    max_body: int = 1_000_000,
    deadline: float = 10.0,
    resolver: Resolver | None = None,
) -> None:
    async def main() -> None:
        fetcher = Fetcher(user_agent="tester", deadline=deadline, max_body=max_body, connections=8, resolver=resolver)
        try:
            await work(fetcher)
        finally:
            await fetcher.aclose()

    asyncio.run(main())


def send(url: str, route: HostRoute | None, request: Request | None = None, **options: object) -> FetchResponse:
    """The response to one request."""
    responses: list[FetchResponse] = []
    settings = {key: options.pop(key) for key in ("max_body", "deadline", "resolver") if key in options}
    sending = {"exempt": True, **options}

    async def work(fetcher: Fetcher) -> None:
        responses.append(await fetcher.send(url, request or Request(), route=route, **sending))  # type: ignore[arg-type]

    run(work, **settings)  # type: ignore[arg-type]
    return responses[0]


def failure(url: str, route: HostRoute | None, **options: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        send(url, route, **options)
    return caught.value
