"""SOCKS5 proxies: what they are asked for, their users, what they refuse, and the addresses behind them."""

import logging
from collections.abc import Iterator

import pytest

from crawl_engine import urls
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import AddressRefused, FetchFailed, ProxiedNameRefused
from crawl_engine.http.transports.proxies import Proxy, read_proxy
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy
from tests.process.site import Site
from tests.process.socks_proxy import SocksProxy, serve_socks
from tests.process.trap import notations, trapping
from tests.unit.http.routes import failure, run, send
from tests.unit.http.test_errors import Resolver

pytestmark = pytest.mark.timeout(60)


class BothFamilies(Resolver):
    async def resolve(self, host: str) -> list[str]:
        return [*await super().resolve(host), "127.0.0.1"]


@pytest.fixture
def socks() -> Iterator[SocksProxy]:
    with serve_socks("us:p w") as proxy:
        yield proxy


def by_socks(proxy: SocksProxy, scheme: str = "socks5", **more: object) -> HostRoute:
    return HostRoute(proxies=(f"{scheme}://us:p%20w@127.0.0.1:{proxy.port}",), **more)  # type: ignore[arg-type]


def test_a_name_is_resolved_here_or_by_the_proxy(plain: Site, socks: SocksProxy) -> None:
    socks.names["shop.test"] = "127.0.0.1"
    url = plain.url("/a%2fb?x=ü").replace("127.0.0.1", "shop.test")
    assert send(url, by_socks(socks, "socks5h")).status == 200
    assert send(url, by_socks(socks), resolver=BothFamilies("::1")).status == 200
    assert socks.asked == [f"shop.test:{plain.port}", f"127.0.0.1:{plain.port}"]
    assert [exchange.path for exchange in plain.exchanges] == ["/a%2fb?x=%C3%BC"] * 2
    assert {exchange.request.headers["host"] for exchange in plain.exchanges} == {f"shop.test:{plain.port}"}
    assert not any("proxy-authorization" in exchange.request.headers for exchange in plain.exchanges)


@pytest.mark.parametrize("http2", [False, True])
def test_pages_over_tls_and_http2(
    http2: bool, secure: Site, modern: Site, authority: Authority, socks: SocksProxy
) -> None:
    site = modern if http2 else secure
    route = by_socks(socks, tls=TlsRule(ca=str(authority.path)), http2=http2)
    response = send(site.url("/x"), route, Request(method="POST", body="a=1", content_type="text/x"))
    assert (response.status, site.exchanges[0].request.body) == (200, b"a=1")
    assert site.http2_requests == int(http2)
    refused = failure(site.url("/"), by_socks(socks, http2=http2))
    assert refused.kind == "tls", "the certificate is checked"


def test_a_connection_serves_several_requests(plain: Site, socks: SocksProxy) -> None:
    async def work(fetcher: Fetcher) -> None:
        for number in range(5):
            await fetcher.send(plain.url(f"/{number}"), Request(), route=by_socks(socks), exempt=True)

    run(work)
    assert plain.paths == [f"/{number}" for number in range(5)]
    assert (socks.connections, plain.connections) == (1, 1)


def test_answers_may_come_byte_by_byte(plain: Site, socks: SocksProxy) -> None:
    socks.pause = 0.01
    assert send(plain.url("/"), by_socks(socks)).status == 200


def test_proxies_of_both_kinds_take_turns_and_one_that_refuses_the_user_rests(
    plain: Site, socks: SocksProxy, proxy: ForwardProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    texts = (
        f"socks5://us:canary@127.0.0.1:{socks.port}", f"http://us:p%20w@127.0.0.1:{proxy.port}",
        f"socks5h://us:p%20w@127.0.0.1:{socks.port}",
    )  # fmt: skip

    async def work(fetcher: Fetcher) -> None:
        for number in range(8):
            await fetcher.send(plain.url(f"/{number}"), Request(), route=HostRoute(proxies=texts), exempt=True)

    run(work)
    assert len(plain.paths) == 8
    assert min(len(socks.asked), len(proxy.asked)) >= 1
    rests = [record.message for record in caplog.records if "rests" in record.message]
    assert rests == [f"proxy socks5://127.0.0.1:{socks.port} rests for 1 s: it refuses the credentials"]
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("reply", "kind", "retryable", "reason"),
    [
        (1, "proxy", True, "proxy {proxy} refuses a connection to {host}: general failure (1)"),
        (2, "proxy", False, "proxy {proxy} refuses a connection to {host}: its rules forbid it"),
        (3, "connection", True, "no route to network, by proxy {proxy}"),
        (4, "connection", True, "no route to host, by proxy {proxy}"),
        (5, "connection", True, "connection refused, by proxy {proxy}"),
        (6, "connection", True, "no answer in time, by proxy {proxy}"),
        (8, "proxy", False, "proxy {proxy} refuses a connection to {host}: it does not know this kind of address"),
        (99, "proxy", True, "proxy {proxy} refuses a connection to {host}: general failure (99)"),
    ],
)
def test_a_refusal_says_whose_fault_it_is(
    plain: Site, socks: SocksProxy, reply: int, kind: str, retryable: bool, reason: str
) -> None:
    socks.reply = reply
    failed = failure(plain.url("/"), by_socks(socks))
    assert (failed.kind, failed.retryable) == (kind, retryable)
    assert failed.reason == reason.format(proxy=socks.url, host=f"127.0.0.1:{plain.port}")
    assert plain.connections == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x05\xff", "it refuses the credentials"),
        (b"\x05\x01", "it refuses the credentials"),
        (b"\x04\x00", "no valid answer to SOCKS5"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no valid answer to SOCKS5"),
        (b"\x05", "no valid answer to SOCKS5"),
        (b"\x05\x00", "no valid answer to SOCKS5"),
        (b"\x05\x00\x05\x00\x00\x09\x00\x00", "no valid answer to SOCKS5"),
    ],
)
def test_what_no_proxy_answers_is_a_failure_of_the_proxy(
    plain: Site, socks: SocksProxy, answer: bytes, reason: str
) -> None:
    socks.answer = answer
    failed = failure(plain.url("/"), by_socks(socks))
    assert (failed.kind, failed.retryable) == ("proxy", True)
    assert failed.reason == f"proxy {socks.url}: {reason}"


def test_a_proxy_that_wants_a_user_and_one_that_is_silent_or_away(plain: Site, socks: SocksProxy) -> None:
    without = HostRoute(proxies=(f"socks5h://127.0.0.1:{socks.port}",))
    assert failure(plain.url("/"), without).reason.endswith("it wants a user and password")
    socks.silent = True
    assert failure(plain.url("/"), by_socks(socks), deadline=3.0).reason.endswith(": no answer in 1 s")
    away = HostRoute(proxies=("socks5://us:canary@127.0.0.1:1",))
    assert failure(plain.url("/"), away).reason == "proxy socks5://127.0.0.1:1: connection refused"


def test_a_name_that_no_resolver_knows_is_the_fault_of_no_proxy(plain: Site, socks: SocksProxy) -> None:
    url = plain.url("/").replace("127.0.0.1", "nowhere.invalid")
    assert failure(url, by_socks(socks)).kind == "dns"
    assert socks.connections == 0


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_the_guard_is_that_of_other_proxies(plain: Site, socks: SocksProxy, scheme: str) -> None:
    socks.names["inner.test"] = "127.0.0.1"
    url, route = plain.url("/").replace("127.0.0.1", "inner.test"), by_socks(socks, scheme)
    assert isinstance(failure(url, route, exempt=False, resolver=Resolver("127.0.0.1")), ProxiedNameRefused)
    with trapping("127.0.0.1") as trap:

        async def work(fetcher: Fetcher) -> None:
            written = map(urls.normalize, notations("127.0.0.1", trap.port))
            for notation in filter(None, written):
                with pytest.raises(AddressRefused):
                    await fetcher.send(notation, Request(), route=route)

        run(work)
        assert (trap.connections, socks.connections) == ([], 0)


# ── their URLs ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "proxy"),
    [
        ("socks5://p.example", Proxy("socks5", "p.example", 1080)),
        ("SOCKS5H://P.example:80/", Proxy("socks5h", "p.example", 80)),
        ("socks5h://[::1]:9050", Proxy("socks5h", "[::1]", 9050)),
        ("socks5://us:p%40:w@p:9", Proxy("socks5", "p", 9, ("us", "p@:w"))),
        ("socks5://us@p", Proxy("socks5", "p", 1080, ("us", ""))),
        ("socks5://%{env.A_USER}:pw@p:9", Proxy("socks5", "p", 9, ("me", "pw"))),
        ("%{env.A_PROXY}", Proxy("socks5h", "q", 1080, ("us", "1:80"))),
    ],
)
def test_the_url_of_a_proxy(monkeypatch: pytest.MonkeyPatch, written: str, proxy: Proxy) -> None:
    monkeypatch.setenv("A_USER", "me")
    monkeypatch.setenv("A_PROXY", "socks5h://us:1%3A80@q")
    read = read_proxy(written)
    assert read == proxy
    assert "pw" not in f"{read} {read!r}"


@pytest.mark.parametrize("value", ["socks4://us:canary@h:1", "socks://us:canary@h", "socks5:us:canary@h:1"])
def test_other_kinds_of_proxies_are_refused_without_their_text(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("A_PROXY", value)
    with pytest.raises(FetchFailed) as caught:
        read_proxy("%{env.A_PROXY}")
    assert "canary" not in caught.value.reason + caught.value.remedy


def test_a_user_is_at_most_255_bytes(plain: Site, socks: SocksProxy) -> None:
    route = HostRoute(proxies=(f"socks5://{'u' * 256}:pw@127.0.0.1:{socks.port}",))
    assert failure(plain.url("/"), route).reason.endswith("its user or password has more than 255 bytes")
