"""Requests by TLS, HTTP/2 or a proxy: the exact request, reuse, limits, certificates."""

import asyncio
import contextlib
import gzip
import socket
import threading
from pathlib import Path

import pytest
from multidict import CIMultiDict

from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import AddressRefused
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.httpcore_wire import HttpcoreWire
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy, serve_proxy
from tests.process.site import Page, Site, redirect, serve_site
from tests.unit.http.routes import echo, failure, run, send, through, trusting
from tests.unit.http.test_errors import Resolver

pytestmark = pytest.mark.timeout(60)


ODD = "/a%2fb//c?x=%zz&y=ü|"


@pytest.mark.parametrize("how", ["tls", "http2", "proxy", "tunnel", "tunnel-http2", "https-proxy"])
def test_the_url_and_the_headers_arrive_as_they_are(
    how: str, plain: Site, secure: Site, modern: Site, proxy: ForwardProxy, authority: Authority
) -> None:
    trusted = TlsRule(ca=str(authority.path))
    site, route = {
        "tls": (secure, HostRoute(tls=trusted)),
        "http2": (modern, HostRoute(tls=trusted, http2=True)),
        "proxy": (plain, through(proxy)),
        "tunnel": (secure, through(proxy, tls=trusted)),
        "tunnel-http2": (modern, through(proxy, tls=trusted, http2=True)),
        "https-proxy": (plain, through(proxy)),
    }[how]
    request = Request(method="POST", headers=(("X-Two", "ü"),), body="a=1", content_type="text/x")
    response = send(site.url(ODD), route, request, headers={"X-One": "1"}, cookies={"c": "2"})
    [exchange] = site.exchanges
    sent = exchange.request
    assert (response.status, sent.method, sent.body) == (200, "POST", b"a=1")
    assert sent.path == "/a%2fb//c?x=%zz&y=%C3%BC|"
    expected = {"x-one": "1", "cookie": "c=2", "user-agent": "tester", "content-type": "text/x", "content-length": "3"}
    assert expected.items() <= dict(sent.headers).items()
    assert sent.headers["x-two"].encode("latin-1").decode() == "ü"
    assert sent.headers.get("host", sent.headers.get(":authority")) == f"127.0.0.1:{site.port}"
    assert "proxy-authorization" not in sent.headers
    assert site.http2_requests == (how in ("http2", "tunnel-http2"))


def test_a_proxy_over_tls_is_reached_and_checked(
    plain: Site, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_proxy(tls=authority.server_context()) as proxy:
        route = HostRoute(proxies=(f"https://127.0.0.1:{proxy.port}",))
        refused = failure(plain.url("/a"), route)
        assert refused.reason.startswith(f"proxy https://127.0.0.1:{proxy.port}: TLS: invalid certificate")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
        assert send(plain.url("/a"), route).status == 200
        assert proxy.asked == [f"GET {plain.url('/a')}"]


@pytest.mark.parametrize("http2", [False, True])
def test_a_connection_serves_further_requests_but_no_other_host_route_or_exemption(
    modern: Site, authority: Authority, http2: bool
) -> None:
    route = trusting(authority, http2=http2)

    async def work(fetcher: Fetcher) -> None:
        for number in range(5):
            await fetcher.send(modern.url(f"/{number}"), Request(), route=route, exempt=True)
        assert modern.connections == 1
        await asyncio.gather(*(fetcher.send(modern.url("/x"), Request(), route=route, exempt=True) for _ in range(30)))
        assert modern.connections <= 9, "bounded by the slots"
        before = modern.connections
        other = modern.url("/other").replace("127.0.0.1", "localhost")
        await fetcher.send(other, Request(), route=route, exempt=True)
        assert modern.connections == before + 1
        await fetcher.send(modern.url("/y"), Request(), route=HostRoute(tls=TlsRule(verify=False)), exempt=True)
        assert modern.connections == before + 2
        with pytest.raises(AddressRefused):
            await fetcher.send(modern.url("/z"), Request(), route=route)

    run(work)
    assert modern.http2_requests == (36 if http2 else 0)


def test_a_host_without_http2_answers_by_http1(secure: Site, authority: Authority) -> None:
    assert send(secure.url("/a"), trusting(authority, http2=True)).body == b"<p>/a</p>"


@pytest.mark.parametrize("http2", [False, True])
def test_bodies_are_limited_as_sent_and_as_decompressed(modern: Site, authority: Authority, http2: bool) -> None:
    route = trusting(authority, http2=http2)
    packed = {"Content-Encoding": "gzip"}
    modern["/long"] = Page(b"x" * 1_000_001)
    modern["/bomb"] = Page(gzip.compress(bytes(50_000_000)), headers=packed)
    modern["/nested"] = Page(gzip.compress(gzip.compress(b"y")), headers=packed)
    modern["/fits"] = Page(gzip.compress(b"z" * 900_000), headers=packed)
    modern["/torn"] = Page(gzip.compress(b"z" * 900_000)[:-9], headers=packed)
    assert failure(modern.url("/long"), route).kind == "too-large"
    assert failure(modern.url("/bomb"), route).kind == "too-large"
    assert failure(modern.url("/torn"), route).kind == "encoding"
    assert send(modern.url("/fits"), route).body == b"z" * 900_000
    assert gzip.decompress(send(modern.url("/nested"), route).body) == b"y"
    assert send(modern.url("/long"), route, read_at_most=1000).body == b"x" * 1000


@pytest.mark.parametrize("http2", [False, True])
def test_a_body_is_read_piece_by_piece_and_its_connection_kept(modern: Site, authority: Authority, http2: bool) -> None:
    modern["/long"] = Page(b"x" * 1_000_000)
    wire = HttpcoreWire(headers={}, connections=2, deadline=10, idle=IdleConnections(), resolvers=Resolvers())

    async def work() -> None:
        for _ in range(2):
            terms = RequestTerms(exempt=True, route=trusting(authority, http2=http2))
            request = OutgoingRequest("GET", modern.url("/long"), CIMultiDict(), b"", terms)
            body = (await wire.handle_async_request(request)).body
            pieces = [piece async for piece in body]
            assert len(pieces) > 10
            assert b"".join(pieces) == b"x" * 1_000_000
            assert body.received == 1_000_000
        await wire.aclose()

    asyncio.run(work())
    assert modern.connections == 1


@pytest.mark.parametrize("http2", [False, True])
def test_redirects_are_not_followed_and_cookies_are_kept(modern: Site, authority: Authority, http2: bool) -> None:
    moved = redirect("/there")
    modern["/"] = Page(status=302, headers={**moved.headers, "Set-Cookie": "s=1; Path=/"})
    route = trusting(authority, http2=http2)

    async def work(fetcher: Fetcher) -> None:
        first = await fetcher.send(modern.url("/"), Request(), route=route, exempt=True)
        assert (first.location, first.body) == (modern.url("/there"), b"")
        await fetcher.send(modern.url("/there"), Request(), route=route, exempt=True)

    run(work)
    assert [exchange.path for exchange in modern.exchanges] == ["/", "/there"]
    assert modern.exchanges[1].request.headers["cookie"] == "s=1"


def test_a_slow_response_ends_at_the_deadline(modern: Site, authority: Authority) -> None:
    modern["/slow"] = Page(b"x", delay=5)
    for http2 in (False, True):
        slow = failure(modern.url("/slow"), trusting(authority, http2=http2), deadline=0.5)
        assert (slow.kind, slow.retryable) == ("timeout", True)


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_certificate_that_is_not_trusted_is_one_clear_reason(
    secure: Site, authority: Authority, tmp_path: Path
) -> None:
    unknown = failure(secure.url("/"), HostRoute(http2=True))
    assert (unknown.reason, unknown.retryable) == (
        "TLS: invalid certificate: unable to get local issuer certificate", False
    )  # fmt: skip
    other = Authority(tmp_path)
    assert failure(secure.url("/"), trusting(other)).reason.startswith("TLS: invalid certificate")
    assert send(secure.url("/"), HostRoute(tls=TlsRule(verify=False))).status == 200
    assert send(secure.url("/"), trusting(authority)).status == 200


def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    with serve_site(authority.server_context("shop.example")) as site:
        site.fallback = echo
        refused = failure(site.url("/"), trusting(authority))
        assert refused.reason.startswith("TLS: invalid certificate: IP address mismatch")
        named = site.url("/").replace("127.0.0.1", "shop.example")
        assert send(named, trusting(authority), resolver=Resolver("127.0.0.1")).status == 200


@pytest.mark.parametrize("http2", [False, True])
def test_a_client_certificate_is_shown_where_the_rule_names_one(authority: Authority, http2: bool) -> None:
    client = authority.write_client()
    with serve_site(authority.server_context(asks_client=True, http2=http2)) as site:
        site.fallback = echo
        route = HostRoute(tls=TlsRule(ca=str(authority.path), client=str(client)), http2=http2)
        assert send(site.url("/"), route).status == 200


def test_a_server_that_misses_a_client_certificate_is_one_clear_reason(authority: Authority) -> None:
    context = authority.server_context(asks_client=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(4):
                connection, _ = listener.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        for http2 in (False, True):
            refused = failure(url, trusting(authority, http2=http2))
            assert (refused.kind, refused.retryable) == ("tls", False)
            assert refused.reason == "TLS: tlsv13 alert certificate required"
        thread.join(5)


def test_a_file_that_is_gone_fails_the_page_with_its_name(secure: Site, tmp_path: Path) -> None:
    gone = failure(secure.url("/"), HostRoute(tls=TlsRule(ca=str(tmp_path / "gone.pem"))))
    assert (gone.kind, gone.retryable) == ("tls", False)
    assert gone.reason.endswith("gone.pem: no such file or directory")
