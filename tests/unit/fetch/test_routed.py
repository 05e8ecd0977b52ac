"""Requests with a proxy, TLS settings or HTTP/2: the exact request, reuse, limits, addresses, and what fails how."""

import asyncio
import contextlib
import gzip
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from engine.fetch.client import Fetcher
from engine.fetch.errors import AddressRefused, FetchFailed, ProxiedNameRefused
from engine.fetch.response import FetchResponse
from engine.model.host_route import Route, TlsRule
from engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy, serve_proxy
from tests.process.site import Page, Site, redirect, serve_site

from .test_errors import Resolver

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def plain() -> Iterator[Site]:
    with serve_site() as site:
        site.fallback = echo
        yield site


@pytest.fixture
def secure(authority: Authority) -> Iterator[Site]:
    with serve_site(authority.server_context()) as site:
        site.fallback = echo
        yield site


@pytest.fixture
def modern(authority: Authority) -> Iterator[Site]:
    """It speaks HTTP/2."""
    with serve_site(authority.server_context(http2=True)) as site:
        site.fallback = echo
        yield site


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with serve_proxy("us:p w") as proxy:
        yield proxy


def echo(request: object) -> Page:
    return Page(f"<p>{request.path}</p>")  # type: ignore[attr-defined]


def through(proxy: ForwardProxy, **more: object) -> Route:
    return Route(proxies=(f"http://us:p%20w@127.0.0.1:{proxy.port}",), **more)  # type: ignore[arg-type]


def trusting(authority: Authority, *, http2: bool = False) -> Route:
    return Route(tls=TlsRule(ca=str(authority.path)), http2=http2)


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


def send(url: str, route: Route, request: Request | None = None, **options: object) -> FetchResponse:
    """The response to one request."""
    responses: list[FetchResponse] = []
    settings = {key: options.pop(key) for key in ("max_body", "deadline", "resolver") if key in options}
    sending = {"exempt": True, **options}

    async def work(fetcher: Fetcher) -> None:
        responses.append(await fetcher.send(url, request or Request(), route=route, **sending))  # type: ignore[arg-type]

    run(work, **settings)  # type: ignore[arg-type]
    return responses[0]


def failure(url: str, route: Route, **options: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        send(url, route, **options)
    return caught.value


ODD = "/a%2fb//c?x=%zz&y=ü|"


@pytest.mark.parametrize("how", ["tls", "http2", "proxy", "tunnel", "tunnel-http2", "https-proxy"])
def test_the_url_and_the_headers_arrive_as_they_are(
    how: str, plain: Site, secure: Site, modern: Site, proxy: ForwardProxy, authority: Authority
) -> None:
    trusted = TlsRule(ca=str(authority.path))
    site, route = {
        "tls": (secure, Route(tls=trusted)),
        "http2": (modern, Route(tls=trusted, http2=True)),
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
        route = Route(proxies=(f"https://127.0.0.1:{proxy.port}",))
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
        await fetcher.send(modern.url("/y"), Request(), route=Route(tls=TlsRule(verify=False)), exempt=True)
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
    unknown = failure(secure.url("/"), Route(http2=True))
    assert (unknown.reason, unknown.retryable) == (
        "TLS: invalid certificate: unable to get local issuer certificate", False
    )  # fmt: skip
    other = Authority(tmp_path)
    assert failure(secure.url("/"), trusting(other)).reason.startswith("TLS: invalid certificate")
    assert send(secure.url("/"), Route(tls=TlsRule(verify=False))).status == 200
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
        route = Route(tls=TlsRule(ca=str(authority.path), client=str(client)), http2=http2)
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
    gone = failure(secure.url("/"), Route(tls=TlsRule(ca=str(tmp_path / "gone.pem"))))
    assert (gone.kind, gone.retryable) == ("tls", False)
    assert gone.reason.endswith("gone.pem: no such file or directory")


# ── proxies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_proxies_take_turns_and_a_dead_one_rests(plain: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with serve_proxy() as one, serve_proxy() as other, serve_proxy() as down:
        down.status = "503 Service Unavailable"
        urls = tuple(f"http://us:canary@127.0.0.1:{port}" for port in (one.port, 1, other.port))
        route = Route(proxies=urls)

        async def work(fetcher: Fetcher) -> None:
            for number in range(12):
                response = await fetcher.send(plain.url(f"/{number}"), Request(), route=route, exempt=True)
                assert response.status == 200

        run(work)
        assert len(one.asked) + len(other.asked) == 12
        assert min(len(one.asked), len(other.asked)) >= 4
    rests = [record.message for record in caplog.records if "rests" in record.message]
    assert rests == ["proxy http://127.0.0.1:1 rests for 1 s: connection refused"], "tried once, then left alone"
    assert "canary" not in caplog.text


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "503 Unavailable"])
def test_a_proxy_that_refuses_a_tunnel_rests(status: str, secure: Site, authority: Authority) -> None:
    with serve_proxy() as bad, serve_proxy() as good:
        bad.status = status
        route = Route(
            proxies=(f"http://127.0.0.1:{bad.port}", f"http://127.0.0.1:{good.port}"),
            tls=TlsRule(ca=str(authority.path)),
        )

        async def work(fetcher: Fetcher) -> None:
            for number in range(6):
                await fetcher.send(secure.url(f"/{number}"), Request(), route=route, exempt=True)

        run(work)
        assert len(bad.asked) == 1
        assert secure.paths == [f"/{number}" for number in range(6)]


def test_a_tunnel_that_is_forbidden_is_the_fault_of_no_proxy(secure: Site, proxy: ForwardProxy) -> None:
    proxy.status = "403 Forbidden"
    refused = failure(secure.url("/"), through(proxy))
    assert (refused.kind, refused.retryable) == ("proxy", False)
    assert refused.reason == (
        f"proxy http://127.0.0.1:{proxy.port} refuses a tunnel to 127.0.0.1:{secure.port}: HTTP 403"
    )


def test_when_all_proxies_fail_the_reason_names_them_without_their_credentials(
    plain: Site, proxy: ForwardProxy
) -> None:
    dead = Route(proxies=("http://us:canary@127.0.0.1:1", f"http://us:wrong@127.0.0.1:{proxy.port}"))
    failed = failure(plain.url("/"), dead)
    assert (failed.kind, failed.retryable) == ("proxy", True)
    assert failed.reason == (
        "all 2 proxies fail: http://127.0.0.1:1: connection refused; "
        f"http://127.0.0.1:{proxy.port}: HTTP 407, it refuses the credentials"
    )
    assert plain.exchanges == []


def test_a_proxy_that_never_answers_has_failed_before_the_deadline(plain: Site, secure: Site) -> None:
    with serve_proxy() as silent, serve_proxy() as good:
        silent.silent = True
        route = Route(
            proxies=(f"http://127.0.0.1:{silent.port}", f"http://127.0.0.1:{good.port}"), tls=TlsRule(verify=False)
        )
        assert send(secure.url("/"), route, deadline=3.0).status == 200


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("%{env.A_PROXY}", "http://us:p%20w@127.0.0.1:{port}"),
        ("http://us:%{env.A_PROXY}@127.0.0.1:{port}", "p w"),
        ("http://us:p%20w@%{env.A_PROXY}", "127.0.0.1:{port}"),
    ],
)
def test_a_variable_may_be_the_proxy_or_a_part_of_it(
    plain: Site, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch, written: str, value: str
) -> None:
    monkeypatch.setenv("A_PROXY", value.replace("{port}", str(proxy.port)))
    assert send(plain.url("/"), Route(proxies=(written.replace("{port}", str(proxy.port)),))).status == 200


@pytest.mark.parametrize(
    "value",
    ["socks5://us:canary@h:1", "canary", "http://us:canary@h:1/x", "http://h:1\r\nX: canary", "http://us:canary@[h"],
)
def test_a_variable_that_is_no_proxy_says_so_without_its_value(
    plain: Site, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("A_PROXY", value)
    failed = failure(plain.url("/"), Route(proxies=("%{env.A_PROXY}",)))
    assert (failed.kind, failed.retryable) == ("proxy", False)
    assert "canary" not in failed.reason + failed.remedy


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("http2", [False, True])
def test_a_guarded_address_is_not_connected_to(modern: Site, authority: Authority, http2: bool) -> None:
    route = trusting(authority, http2=http2)
    for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
        with pytest.raises(AddressRefused):
            send(modern.url("/").replace("127.0.0.1", host), route, exempt=False)
    with pytest.raises(AddressRefused) as refused:
        send("https://shop.example/", route, exempt=False, resolver=Resolver("10.1.2.3"))
    assert refused.value.reason.startswith("address 10.1.2.3 of shop.example is private")
    assert modern.connections == 0


def test_the_address_is_checked_again_when_the_socket_is_opened(
    modern: Site, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the resolver is switched off: the last one alone must hold."""
    monkeypatch.setattr("engine.fetch.dialer.GuardedResolver", lambda resolver: resolver)
    with pytest.raises(AddressRefused):
        send(
            modern.url("/").replace("127.0.0.1", "shop.example"), trusting(authority), exempt=False,
            resolver=Resolver("127.0.0.1"),
        )  # fmt: skip
    assert modern.connections == 0


def test_through_a_proxy_names_that_are_not_named_are_refused_unasked(plain: Site, proxy: ForwardProxy) -> None:
    proxy.names["inner.test"] = "127.0.0.1"
    url = plain.url("/").replace("127.0.0.1", "inner.test")
    refused = failure(url, through(proxy), exempt=False)
    assert isinstance(refused, ProxiedNameRefused)
    assert refused.reason.startswith(f"address of inner.test:{plain.port} is hidden by a proxy")
    assert isinstance(failure(plain.url("/"), through(proxy), exempt=False), AddressRefused)
    assert isinstance(failure("https://[::1]/", through(proxy), exempt=False), AddressRefused)
    assert proxy.connections == 0
    assert send(url, through(proxy)).status == 200, "a locator names it"
    assert proxy.asked == [f"GET {url}"], "the proxy resolves the name"


def test_a_public_literal_is_asked_for_through_a_proxy(proxy: ForwardProxy) -> None:
    proxy.status = "200 OK"
    assert send("http://93.184.215.14/", through(proxy), exempt=False).status == 200
    assert proxy.asked == ["GET http://93.184.215.14/"]


def test_check_address_knows_the_route(plain: Site, proxy: ForwardProxy) -> None:
    async def work(fetcher: Fetcher) -> None:
        with pytest.raises(ProxiedNameRefused):
            await fetcher.check_address("https://shop.example/", through(proxy))
        with pytest.raises(AddressRefused):
            await fetcher.check_address("https://10.0.0.1/", through(proxy))
        await fetcher.check_address("https://93.184.215.14/", through(proxy))

    run(work)
    assert proxy.connections == 0
