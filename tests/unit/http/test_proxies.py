"""Proxies: turns, rests, variables, and the addresses that a route may lead to."""

import logging

import pytest

from crawl_engine import urls
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import AddressRefused, FetchFailed, ProxiedNameRefused
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy, serve_proxy
from tests.process.site import Site
from tests.process.trap import notations, trapping
from tests.unit.http.routes import failure, run, send, through, trusting
from tests.unit.http.test_errors import Resolver

pytestmark = pytest.mark.timeout(60)


# ── proxies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_proxies_take_turns_and_a_dead_one_rests(plain: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with serve_proxy() as one, serve_proxy() as other, serve_proxy() as down:
        down.status = "503 Service Unavailable"
        urls = tuple(f"http://us:canary@127.0.0.1:{port}" for port in (one.port, 1, other.port))
        route = HostRoute(proxies=urls)

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


def test_what_no_proxy_should_answer_is_retried_with_another(plain: Site) -> None:
    with serve_proxy() as broken, serve_proxy() as good:
        broken.status = "garbage"
        urls = tuple(f"http://127.0.0.1:{proxy.port}" for proxy in (broken, good))

        async def work(fetcher: Fetcher) -> None:
            served = 0
            for number in range(6):
                try:
                    await fetcher.send(plain.url(f"/{number}"), Request(), route=HostRoute(proxies=urls), exempt=True)
                    served += 1
                except FetchFailed as failed:
                    assert failed.retryable
                    assert failed.kind == "proxy"
                    assert str(broken.port) in failed.reason
            assert served >= 3

        run(work)


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "503 Unavailable"])
def test_a_proxy_that_refuses_a_tunnel_rests(status: str, secure: Site, authority: Authority) -> None:
    with serve_proxy() as bad, serve_proxy() as good:
        bad.status = status
        route = HostRoute(
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
    dead = HostRoute(proxies=("http://us:canary@127.0.0.1:1", f"http://us:wrong@127.0.0.1:{proxy.port}"))
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
        route = HostRoute(
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
    assert send(plain.url("/"), HostRoute(proxies=(written.replace("{port}", str(proxy.port)),))).status == 200


@pytest.mark.parametrize(
    "value",
    ["socks4://us:canary@h:1", "canary", "http://us:canary@h:1/x", "http://h:1\r\nX: canary", "http://us:canary@[h"],
)
def test_a_variable_that_is_no_proxy_says_so_without_its_value(
    plain: Site, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("A_PROXY", value)
    failed = failure(plain.url("/"), HostRoute(proxies=("%{env.A_PROXY}",)))
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


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1"])
def test_no_notation_of_a_guarded_address_is_asked_for_on_any_route(proxy: ForwardProxy, address: str) -> None:
    routes = (HostRoute(tls=TlsRule(verify=False)), HostRoute(http2=True), through(proxy), through(proxy, http2=True))
    with trapping("127.0.0.1") as trap:
        written = [url.replace("http:", "https:", 1) for url in notations(address, trap.port)]

        async def work(fetcher: Fetcher) -> None:
            for url in (one for text in written if (one := urls.normalize(text)) is not None):
                for route in routes:
                    with pytest.raises(AddressRefused):
                        await fetcher.send(url, Request(), route=route)

        run(work)
        assert len(written) > 10
        assert (trap.connections, proxy.connections) == ([], 0)


def test_the_address_is_checked_again_when_the_socket_is_opened(
    modern: Site, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the resolver is switched off: the last one alone must hold."""
    monkeypatch.setattr("crawl_engine.http.transports.guard.GuardedResolver", lambda resolver: resolver)
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
