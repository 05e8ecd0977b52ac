"""Middleware over a chain in memory: what it sees, changes, repeats and answers."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from multidict import CIMultiDict

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.transports.body import BodyTransport
from crawl_engine.http.transports.middleware import MiddlewareLoader, MiddlewareTransport, NamedMiddleware
from crawl_engine.model.definition import Definitions
from crawl_engine.model.step import PluginFile
from tests.unit.http.test_transports import URL, MemoryBody, MemoryWire

Send = Callable[[httpx.Request], Awaitable[httpx.Response]]
Handle = Callable[[httpx.Request, Send], Awaitable[httpx.Response]]


class Instance:
    def __init__(self, handle: Handle) -> None:
        self.handle = handle


def run(*handles: Handle, wire: MemoryWire | None = None, deadline: float = 5.0, url: str = URL) -> FetchResponse:
    chain = BodyTransport(wire or MemoryWire(), deadline=5, max_body=1_000)
    transport = MiddlewareTransport(chain, deadline=deadline, max_body=1_000)
    terms = RequestTerms(url=url, middleware=tuple(NamedMiddleware("a.A", Instance(handle)) for handle in handles))
    headers = CIMultiDict([("X-Own", "ü")])

    async def send() -> FetchResponse:
        return (await transport.handle_async_request(OutgoingRequest("GET", url, headers, b"", terms))).fetched

    return asyncio.run(send())


def test_the_first_is_the_outermost_and_headers_keep_their_case() -> None:
    async def outer(request: httpx.Request, send: Send) -> httpx.Response:
        assert (str(request.url), request.method, request.headers["x-own"]) == (URL, "GET", "ü")
        request.headers["X-Order"] = "outer"
        response = await send(request)
        assert (response.status_code, response.text) == (200, "page")
        return response

    async def inner(request: httpx.Request, send: Send) -> httpx.Response:
        request.headers["X-Order"] += " inner"
        return await send(request)

    wire = MemoryWire(headers=((b"Content-Type", b"text/html"),))
    response = run(outer, inner, wire=wire)
    assert (response.body, response.content_type, response.url) == (b"page", "text/html", URL)
    assert list(wire.requests[0].headers.items()) == [("X-Own", "ü"), ("X-Order", "outer inner")]


@pytest.mark.parametrize("url", ["http://shop.example/a%2fb//c?x=%zz|", "http://shop.example/" + "x" * 70_000])
def test_a_url_that_is_not_changed_is_sent_exactly(url: str) -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        return await send(request)

    wire = MemoryWire()
    run(handle, wire=wire, url=url)
    assert [sent.target for sent in wire.requests] == [url]


def test_another_url_and_body_of_the_same_host_are_sent() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        return await send(httpx.Request("POST", request.url.join("/b?c=1"), json={"d": 2}))

    wire = MemoryWire()
    run(handle, wire=wire)
    [sent] = wire.requests
    assert (sent.method, sent.target, sent.body) == ("POST", "http://shop.example/b?c=1", b'{"d":2}')
    assert list(sent.headers.items()) == [("Content-Type", "application/json")]


def test_a_response_that_is_changed_counts_as_its_own() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        return httpx.Response(response.status_code, text=response.text.upper())

    assert run(handle).body == b"PAGE"


def test_an_own_redirect_leads_on() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        return httpx.Response(302, headers={"Location": "/b"})

    assert run(handle).location == "http://shop.example/b"


def test_an_own_body_has_the_limit_of_others() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        return httpx.Response(200, content=b"x" * 1_001)

    with pytest.raises(FetchFailed) as failed:
        run(handle)
    assert failed.value.kind == "too-large"


def test_the_failure_of_a_request_stays_unless_it_is_caught() -> None:
    class NoWire(MemoryWire):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:  # type: ignore[override]
            raise FetchFailed("connection refused", kind="connection", retryable=True)

    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        return await send(request)

    async def catch(request: httpx.Request, send: Send) -> httpx.Response:
        try:
            return await send(request)
        except Exception:
            return httpx.Response(200, text="spare")

    with pytest.raises(FetchFailed, match="connection refused") as failed:
        run(handle, wire=NoWire())
    assert failed.value.kind == "connection"
    assert run(catch, wire=NoWire()).body == b"spare"


def test_requests_do_not_use_up_the_time_of_the_code() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        await asyncio.gather(send(request), send(request))
        return await send(request)

    assert run(handle, wire=MemoryWire(MemoryBody(b"page", pause=0.3)), deadline=0.2).status == 200


def test_code_that_never_ends_is_a_timeout() -> None:
    async def handle(request: httpx.Request, send: Send) -> httpx.Response:
        await send(request)
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(FetchFailed, match=r"timeout after 0\.2 s in middleware a\.A") as failed:
        run(handle, deadline=0.2)
    assert failed.value.kind == "timeout"


SOURCE = "class Sign:\n    value = {}\n    async def handle(self, request, send):\n        return await send(request)\n"


def test_new_files_make_new_instances_and_the_same_files_none() -> None:
    versions = {
        n: Definitions(plugins=(PluginFile(path="sign.py", text=SOURCE.format(v)),))
        for n, v in ((1, 1), (2, 1), (3, 2))
    }
    loader = MiddlewareLoader()
    try:
        made = [loader.find(("sign.Sign",), version, versions.__getitem__)[0].instance for version in (1, 2, 3, 1)]
    finally:
        assert loader._loader is not None
        loader._loader.close()
    assert made[0] is made[1]
    assert [instance.value for instance in made] == [1, 1, 2, 2], "the newest files count"
