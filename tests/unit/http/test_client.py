"""Fetcher.send against a real server on loopback: requests, responses, redirect targets."""

import asyncio
import gzip
import tracemalloc
import zlib
from base64 import b64decode
from collections.abc import Iterator

import brotli
import pytest
import zstandard

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.request import HostPart
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import Request
from tests.unit.http.server import Exchange, LoopbackFetcher, Site, serving

GET = Request()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def fetch(url: str, request: Request = GET, max_body: int = 20_000_000, **options: object) -> FetchResponse:
    async def once() -> FetchResponse:
        fetcher = LoopbackFetcher(user_agent="tester/1", deadline=5, max_body=max_body, connections=4)
        try:
            return await fetcher.send(url, request, **options)  # type: ignore[arg-type]
        finally:
            await fetcher.aclose()

    return asyncio.run(once())


def test_a_response_is_complete(site: Site) -> None:
    site.pages["/a"] = lambda x: x.respond(
        b"<p>hello", "Content-Type: text/html; charset=utf-8", "X-Two: a", "X-Two: b"
    )
    response = fetch(site.url("/a?q=1"))
    assert (response.status, response.body, response.content_type) == (200, b"<p>hello", "text/html; charset=utf-8")
    assert response.url == site.url("/a?q=1")
    assert [value for name, value in response.headers if name == "x-two"] == ["a", "b"]
    assert (response.location, response.location_problem, response.retry_after) == (None, None, None)
    assert 0 < response.elapsed < 5
    sent = site.requests[0]
    assert (sent.method, sent.path) == ("GET", "/a?q=1")
    assert sent.headers["user-agent"] == "tester/1"
    assert sent.headers["accept-encoding"] == "gzip, deflate, br, zstd"
    assert sent.headers["host"] == f"127.0.0.1:{site.port}"


def test_the_url_is_sent_unchanged(site: Site) -> None:
    site.pages["/%7Ea|b"] = lambda x: x.respond()
    path = "/%7Ea|b?next=http%3A%2F%2Fh%2F&x={y}&z=%27&e=%zz"
    fetch(site.url(path))
    assert site.requests[0].path == path


def test_form_bodies_and_headers_are_sent(site: Site) -> None:
    site.pages["/form"] = lambda x: x.respond()
    fetch(
        site.url("/form"),
        Request(
            method="POST",
            headers=(("Accept-Language", "de"), ("Accept", "text/plain")),
            body="a=1&b=ü",
            content_type="application/x-www-form-urlencoded",
        ),
        headers={"X-Host": "1", "accept-language": "en"},
    )
    sent = site.requests[0]
    assert (sent.method, sent.body) == ("POST", "a=1&b=ü".encode())
    assert sent.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (sent.headers["accept-language"], sent.headers["x-host"], sent.headers["accept"]) == (
        "de",
        "1",
        "text/plain",
    )


def test_a_body_without_a_type_has_no_content_type(site: Site) -> None:
    site.pages["/raw"] = lambda x: x.respond()
    fetch(site.url("/raw"), Request(method="PUT", body="x"))
    assert "content-type" not in site.requests[0].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_reported_and_not_followed(site: Site, status: int) -> None:
    site.pages["/old/"] = lambda x: x.respond(b"moved", "Location: ../new?x=1#part", status=f"{status} Moved")
    response = fetch(site.url("/old/"))
    assert (response.status, response.location, response.body) == (status, site.url("/new?x=1"), b"")
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("location", "target", "problem"),
    [
        ("Location: https://other.example/a b", "https://other.example/a%20b", None),
        ("Location: //other.example", "http://other.example/", None),
        ("Location: /caf\xc3\xa9", "/caf%C3%A9", None),
        ("Location: /caf\xe9", "/caf%E9", None),
        ("Location: mailto:a@b.example", None, "redirect to a URL that is not http or https: mailto:a@b.example"),
        ("Location: ftp://u:secret@h/", None, "redirect to a URL that is not http or https: ftp://h/"),
        ("X-None: 1", None, "redirect without a Location"),
        ("Location: https://evil.example/?k=%{env.HOME}", "https://evil.example/?k=%{env.HOME}", None),
        ("Location: https://evil.example/%{env.HOME}", "https://evil.example/%%7Benv.HOME%7D", None),
    ],
)
def test_redirect_targets(site: Site, location: str, target: str | None, problem: str | None) -> None:
    site.pages["/"] = lambda x: x.respond(b"", location, status="302 Found")
    response = fetch(site.url("/"))
    assert response.location == (site.url(target) if target and target.startswith("/") else target)
    assert response.location_problem == problem


def test_a_redirect_with_an_endless_body_is_still_a_redirect(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"x" * 300_000, "Location: /b", status="302 Found", length=10**9)
    assert fetch(site.url("/")).location == site.url("/b")


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
        ("GZIP", gzip.compress),
        ("identity", bytes),
        ("utf-8", bytes),
    ],
)
def test_one_encoding_is_decompressed(site: Site, name: str, pack: object) -> None:
    page = b"<p>" + bytes(range(256)) * 400
    packed = pack(page)  # type: ignore[operator]
    site.pages["/"] = lambda x: x.respond(packed, f"Content-Encoding: {name}")
    assert fetch(site.url("/")).body == page


def test_chunked_and_close_delimited_bodies(site: Site) -> None:
    @site.page("/chunked")
    def _(x: Exchange) -> None:
        x.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")

    @site.page("/closed")
    def _(x: Exchange) -> None:
        x.raw(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        x.connection.close()

    assert fetch(site.url("/chunked")).body == b"hello world"
    assert fetch(site.url("/closed")).body == b"until the end"


def test_responses_without_a_body(site: Site) -> None:
    site.pages["/204"] = lambda x: x.raw(b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n")
    site.pages["/head"] = lambda x: x.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
    assert fetch(site.url("/204")).body == b""
    assert fetch(site.url("/head"), Request(method="HEAD")).body == b""


def test_a_page_of_50_mb(site: Site) -> None:
    page = b"0123456789abcdef" * (50_000_000 // 16)
    site.pages["/"] = lambda x: x.respond(page)
    assert fetch(site.url("/"), max_body=60_000_000).body == page
    with pytest.raises(FetchFailed, match="body over 20000000 bytes"):
        fetch(site.url("/"))


def test_of_three_nested_gzips_one_layer_is_removed(site: Site) -> None:
    inner = gzip.compress(gzip.compress(b"\0" * 10_000_000))
    site.pages["/"] = lambda x: x.respond(gzip.compress(inner), "Content-Encoding: gzip")
    assert fetch(site.url("/")).body == inner


def test_a_bomb_stops_at_max_body_with_little_memory(site: Site) -> None:
    bomb = gzip.compress(b"\0" * 200_000_000, 1)
    site.pages["/"] = lambda x: x.respond(bomb, "Content-Encoding: gzip")
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed, match=r"body over 1000000 bytes \(max_body\)"):
            fetch(site.url("/"), max_body=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_connections_are_reused(site: Site) -> None:
    site.pages["/a"] = lambda x: x.respond(b"a" * 70_000)
    site.pages["/b"] = lambda x: x.respond(b"", "Location: /a", status="302 Found")
    site.pages["/c"] = lambda x: x.respond(b"gone", status="404 Not Found")

    async def many() -> None:
        fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=100_000, connections=4)
        for path in ("/a", "/b", "/c", "/a"):
            await fetcher.send(site.url(path), GET)
        await fetcher.aclose()

    asyncio.run(many())
    assert site.connections == 1


def test_cookies_are_sent_only_to_their_site(site: Site) -> None:
    site.pages["/set"] = lambda x: x.respond(b"", "Set-Cookie: sid=1; Path=/", "Set-Cookie: lang=en; Path=/set")
    site.pages["/get"] = lambda x: x.respond()

    async def visits() -> None:
        fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=1000, connections=4)
        await fetcher.send(site.url("/get"), GET)
        await fetcher.send(site.url("/set"), GET)
        await fetcher.send(site.url("/get"), GET)
        await fetcher.send(
            site.url("/get"), Request(cookies=(("sid", "mine"), ("x", "1"))), cookies={"x": "0", "h": "2"}
        )
        await fetcher.send(site.url("/get", host="localhost"), GET)
        await fetcher.aclose()

    asyncio.run(visits())
    assert [x.headers.get("cookie") for x in site.requests] == [None, None, "sid=1", "x=1; h=2; sid=mine", None]


def test_the_cookies_of_a_request_are_known_before_and_after_it(site: Site) -> None:
    site.pages["/set"] = lambda x: x.respond(b"", "Set-Cookie: sid=1; Path=/", "Set-Cookie: h=site; Path=/")
    part = HostPart({}, {"h": "2"})

    async def visits() -> list[str]:
        fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=1000, connections=4)
        first = await fetcher.send(site.url("/set"), GET, cookies=part.cookies)
        found = [
            first.cookie_header,
            fetcher.cookie_header(site.url("/set"), GET, part),
            fetcher.cookie_header(site.url("/set"), GET, part, session_cookies=False),
            fetcher.cookie_header(site.url("/set", host="localhost"), GET, part),
        ]
        found.append((await fetcher.send(site.url("/set"), GET, cookies=part.cookies)).cookie_header)
        await fetcher.aclose()
        return found

    assert asyncio.run(visits()) == ["h=2", "sid=1; h=2", "h=2", "h=2", "sid=1; h=2"]


def test_environment_variables_are_expanded_when_sending(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "s3cret/&é")
    monkeypatch.setenv("SHOP_PLAIN", "s3cret")
    site.pages["/s3cret%2F%26%C3%A9"] = lambda x: x.respond()
    url = site.url("/%%7Benv.SHOP_KEY%7D?k=%{env.SHOP_KEY}&lit=%%{env.SHOP_KEY}")
    response = fetch(
        url,
        Request(
            method="POST",
            headers=(("X-Key", "key %{env.SHOP_PLAIN}"), ("X-Lit", "%%{env.SHOP_PLAIN}")),
            cookies=(("c", "%{env.SHOP_PLAIN}"),),
            body='{"k": "%{env.SHOP_KEY}", "other": "%{document.url}"}',
        ),
        url_from_defs=True,
    )
    sent = site.requests[0]
    assert sent.path == "/s3cret%2F%26%C3%A9?k=s3cret%2F%26%C3%A9&lit=%{env.SHOP_KEY}"
    assert (sent.headers["x-key"], sent.headers["x-lit"]) == ("key s3cret", "%{env.SHOP_PLAIN}")
    assert sent.headers["cookie"] == "c=s3cret"
    assert sent.body.decode() == '{"k": "s3cret/&é", "other": "%{document.url}"}'
    assert response.url == url
    assert "s3cret" not in repr(response)


def test_a_page_cannot_read_our_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    site.pages["/"] = lambda x: x.respond()
    fetch(site.url("/?k=%{env.SHOP_KEY}"))
    assert site.requests[0].path == "/?k=%{env.SHOP_KEY}"


@pytest.mark.parametrize(
    ("request_", "url"),
    [
        (Request(headers=(("X-Key", "%{env.NOT_SET_HERE}"),)), "/"),
        (Request(cookies=(("c", "%{env.NOT_SET_HERE}"),)), "/"),
        (Request(method="POST", body="%{env.NOT_SET_HERE}"), "/"),
        (GET, "/?k=%{env.NOT_SET_HERE}"),
    ],
)
def test_an_unset_variable_is_named(site: Site, request_: Request, url: str) -> None:
    with pytest.raises(FetchFailed, match="environment variable NOT_SET_HERE is not set") as failed:
        fetch(site.url(url), request_, url_from_defs=True)
    assert not failed.value.retryable
    assert site.requests == []


def test_credentials_in_the_url_are_sent_and_never_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages["/"] = lambda x: x.respond(b"", f"Location: {site.url('/next')}", status="301 Moved")
    response = fetch(f"http://us%3Aer:pa%40ss@127.0.0.1:{site.port}/")
    kind, _, code = site.requests[0].headers["authorization"].partition(" ")
    assert (kind, b64decode(code)) == ("Basic", b"us:er:pa@ss")
    assert response.url == site.url("/")
    assert response.location == site.url("/next")
    monkeypatch.setenv("PW", "p@/ss")
    fetch(f"http://u:%%7Benv.PW%7D@127.0.0.1:{site.port}/", url_from_defs=True)
    assert b64decode(site.requests[1].headers["authorization"].partition(" ")[2]) == b"u:p@/ss"
    fetch(f"http://u:p@127.0.0.1:{site.port}/", Request(headers=(("Authorization", "Bearer t"),)))
    assert site.requests[2].headers["authorization"] == "Bearer t"


def test_latin_1_in_a_header(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"", "X-Town: K\xf6ln", "X-Utf: K\xc3\xb6ln")
    headers = dict(fetch(site.url("/")).headers)
    assert headers["x-town"] == headers["x-utf"] == "Köln"


def test_a_huge_header_is_read(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"ok", "X-Policy: " + "p" * 60_000)
    assert len(dict(fetch(site.url("/")).headers)["x-policy"]) == 60_000


def test_an_error_status_survives_an_unreadable_body(site: Site) -> None:
    site.pages["/bad"] = lambda x: x.respond(b"no gzip", "Content-Encoding: gzip", status="503 Busy")
    site.pages["/long"] = lambda x: x.respond(b"x" * 2000, status="404 Not Found")
    assert (fetch(site.url("/bad")).status, fetch(site.url("/bad")).body) == (503, b"")
    assert fetch(site.url("/long"), max_body=1000).status == 404
