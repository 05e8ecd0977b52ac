"""The bytes that Fetcher.send writes: httpx adds, changes and logs nothing."""

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.job import Request
from tests.unit.http.server import Exchange, LoopbackFetcher, Site, serving

GET = Request()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def send(*urls: str, request: Request = GET, **options: object) -> None:
    async def run() -> None:
        fetcher = LoopbackFetcher(user_agent="tester/1", deadline=5, max_body=10_000, connections=1)
        try:
            for url in urls:
                await fetcher.send(url, request, **options)  # type: ignore[arg-type]
        finally:
            await fetcher.aclose()

    asyncio.run(run())


def head(first_line: str, site: Site, *more: str) -> str:
    common = ["Accept-Encoding: gzip, deflate, br, zstd"]
    return "\r\n".join(
        [first_line, f"Host: 127.0.0.1:{site.port}", "User-Agent: tester/1", *more[:1], *common, *more[1:]]
    )


ACCEPT = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_a_plain_get_has_exactly_these_headers(site: Site) -> None:
    site.pages["/a"] = lambda x: x.respond()
    send(site.url("/a"))
    assert site.requests[0].head.decode() == head("GET /a HTTP/1.1", site, ACCEPT)


def test_headers_of_a_post_keep_their_case_and_order(site: Site) -> None:
    site.pages["/f"] = lambda x: x.respond(b"", "Set-Cookie: sid=1; Path=/", "Set-Cookie: b=2")
    request = Request(
        method="POST",
        headers=(("Accept-Language", "de"), ("accept", "text/plain"), ("X-Two", "1"), ("X-Two", "é")),
        body="a=ü",
        content_type="application/x-www-form-urlencoded",
    )
    send(
        site.url("/f"),
        site.url("/f"),
        request=request,
        headers={"X-Host": "1", "accept-language": "en"},
        cookies={"h": "2", "sid": "mine"},
    )
    own = (
        "X-Host: 1",
        "Accept-Language: de",
        "X-Two: 1",
        "X-Two: é",
        "Content-Type: application/x-www-form-urlencoded",
    )
    for exchange, cookie in zip(site.requests, ("h=2; sid=mine", "b=2; h=2; sid=mine"), strict=True):
        lines = ("accept: text/plain", *own, f"Cookie: {cookie}", "Content-Length: 4")
        assert exchange.head.decode() == head("POST /f HTTP/1.1", site, *lines)
        assert exchange.body == "a=ü".encode()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/p%2Fq/%7E/[x]/'y'?n=http%3A%2F%2Fh%2F", "/p%2Fq/%7E/[x]/'y'?n=http%3A%2F%2Fh%2F"),
        ("/a|b?x={y}&[1]=%zz&q=a%20b+c", "/a|b?x={y}&[1]=%zz&q=a%20b+c"),
        ("/日?u=é#fragment", "/%E6%97%A5?u=%C3%A9"),
        ("/?q='a'", "/?q=%27a%27"),
        ("/a;b=c,d:e@f$g!h*i(j)", "/a;b=c,d:e@f$g!h*i(j)"),
        ("/" + "x" * 70_000, "/" + "x" * 70_000),
    ],
)
def test_the_normalized_url_is_sent_unchanged(site: Site, url: str, path: str) -> None:
    site.pages[path.partition("?")[0]] = lambda x: x.respond(b"", "Set-Cookie: a=1; Path=/")
    send(site.url(url), site.url(url))
    assert [exchange.path for exchange in site.requests] == [path, path]
    assert [exchange.headers.get("cookie") for exchange in site.requests] == [None, "a=1"]


def test_a_request_on_a_new_connection_is_sent_once(site: Site) -> None:
    site.pages["/b"] = Exchange.reset
    with pytest.raises(FetchFailed):
        send(site.url("/b"))
    assert len(site.requests) == 1


def test_the_environment_sets_no_proxy_and_no_credentials(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.pages["/a"] = lambda x: x.respond()
    send(site.url("/a"))
    assert len(site.requests) == 1


def test_a_response_is_freed_without_the_garbage_collector(site: Site) -> None:
    site.pages["/a"] = lambda x: x.respond(b"ok")

    async def count_garbage() -> int:
        fetcher = LoopbackFetcher(user_agent="tester/1", deadline=5, max_body=10_000, connections=1)
        for _ in range(5):
            await fetcher.send(site.url("/a"), GET)
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await fetcher.send(site.url("/a"), GET)
            return gc.collect()
        finally:
            gc.enable()
            await fetcher.aclose()

    assert asyncio.run(count_garbage()) < 50


def test_no_url_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.pages["/a"] = lambda x: x.respond()
    with caplog.at_level(logging.INFO):
        send(site.url("/a"))
    assert caplog.records == []
