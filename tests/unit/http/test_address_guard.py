"""Every form of a guarded address is refused: in the URL, in what a name resolves to, and at the socket."""

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine import urls
from crawl_engine.http import address_guard
from crawl_engine.http.address_guard import GuardedAddress, guarded_category, literal_address, open_guarded_socket
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.model.job import Request
from tests.unit.http.server import Site, serving

GET = Request()


@pytest.mark.parametrize(
    ("category", "addresses"),
    [
        ("loopback", "127.0.0.1 127.255.255.255 ::1"),
        ("private", "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fdff::1 64:ff9b:1::808:808"),
        ("link-local", "169.254.169.254 fe80::1 fe80::1%eth0 febf::1"),
        ("shared by a provider's NAT", "100.64.0.0 100.127.255.255"),
        ("site-local", "fec0::1 feff::1"),
        ("multicast", "224.0.0.1 239.255.255.255 ff02::1"),
        ("unspecified", "0.0.0.0 0.255.255.255 ::"),
        ("reserved", "192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1"),
        ("reserved", "240.0.0.1 255.255.255.255 100::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1"),
        ("reserved", "::10.0.0.1 ::8.8.8.8 ::ffff:0:10.0.0.1 4000:: 1fff::1"),
        ("loopback (it holds 127.0.0.1)", "::ffff:127.0.0.1 ::ffff:7f00:1 64:ff9b::7f00:1 2002:7f00:1::1"),
        ("private (it holds 10.0.0.1)", "::ffff:10.0.0.1 64:ff9b::10.0.0.1 2002:a00:1:: 2001:0:a00:1::f7f7:f7f7"),
        ("private (it holds 192.168.0.1)", "2001:0:4136:e378:8000:63bf:3f57:fffe"),
        ("link-local (it holds 169.254.169.254)", "::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::"),
        ("not an IP address", "localhost 127.1 0x7f000001"),
        (None, "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.167.1.1 223.255.255.255 9.9.9.9"),
        (None, "2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1"),
    ],
)
def test_addresses_by_category(category: str | None, addresses: str) -> None:
    assert {address: guarded_category(address) for address in addresses.split()} == dict.fromkeys(
        addresses.split(), category
    )


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_the_standard_library_calls_local_is_guarded(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # the library calls all of ::/8 reserved, also where the packet goes to 1.1.1.1
    local = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
    if any(local) or (address.is_reserved and not str(address).startswith("64:ff9b::")):
        assert guarded_category(str(address)) is not None


LOOPBACK_FORMS = [
    *("http://2130706433/", "http://0x7f.1/", "http://0x7F000001/", "http://0177.0.0.1/", "http://017700000001/"),
    *("http://127.1/", "http://127.0.1/", "http://127.0.0.1./", "http://127.0.0.1../", "http://0300.0250.1/"),
    *("http://１２７.０.０.１/", "http://127。0。0。1/", "http://①②⑦.⓪.⓪.①/", "http://%31%32%37.0.0.1/"),
    *("http:\\\\127.0.0.1\\x", "http:127.0.0.1", "http:/127.0.0.1", "http://user:pw@127.0.0.1/", "http://a@b@127.1/"),
    *("http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    *("http://[::127.0.0.1]/", "http://[64:ff9b::127.0.0.1]/", "http://[2002:7f00:1::]/", "http://0/", "http://0x/"),
    *("http://\t127.0.\n0.1/", " http://127.0.0.1 ", "HTTP://127.0.0.1:80", "https://127.0.0.1:443/", "//127.0.0.1/"),
    *("http://[fe80::1]/", "http://2852039166/", "http://0xa9fea9fe/", "http://169.254.43518/", "http://10.1/"),
]


@pytest.mark.parametrize("written", LOOPBACK_FORMS)
def test_every_notation_reaches_the_guard_as_an_address(written: str) -> None:
    base = "http:" if written.startswith("//") else "https://public.example/a"  # else `http:x` is relative
    url = urls.normalize(written) or urls.join(base + "//public.example/" if base == "http:" else base, written)
    assert url is not None
    refused = _refusal(url)
    assert refused.kind == "address"
    assert not refused.retryable
    assert refused.host_key == urls.host_key(url)


@pytest.mark.parametrize(
    "written",
    ["http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://127.0.0.1%2f/", "http://1.2.3.4.5/", "http://a.1/"],
)
def test_hosts_that_browsers_refuse_are_no_urls(written: str) -> None:
    assert urls.normalize(written) is None
    assert urls.join("http://public.example/", written) is None


def test_the_reason_says_how_to_allow_the_host() -> None:
    assert _refusal("http://10.0.0.1/").reason == (
        'address 10.0.0.1 is private; to allow it: hosts: {"10.0.0.1:80": {private: true}}'
    )
    assert _refusal("https://[::1]:8443/x").reason == (
        'address ::1 is loopback; to allow it: hosts: {"[::1]:8443": {private: true}}'
    )
    resolver = Resolver({"intranet.example": ["10.0.0.7"]})
    assert _refusal("http://intranet.example:81/", resolver).reason == (
        'address 10.0.0.7 of intranet.example is private; to allow it: hosts: {"intranet.example:81": {private: true}}'
    )


class Resolver:
    """Resolves names by a table. A name with several lists gets the next one at each question."""

    def __init__(self, table: dict[str, list[str] | Iterator[list[str]]]) -> None:
        self.table = table
        self.questions: list[str] = []

    async def resolve(self, host: str) -> list[str]:
        self.questions.append(host)
        answer = self.table[host]
        return answer if isinstance(answer, list) else next(answer)


class Connections:
    """Records every address about to be connected, and lets none but loopback through, which the guard comes before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        self._guard = open_guarded_socket
        monkeypatch.setattr(address_guard, "open_guarded_socket", self._open)

    def _open(self, addr_info: Sequence[Any]) -> socket.socket:
        made = self._guard(addr_info)
        made.close()
        self.opened.append(addr_info[4][0])
        raise ConnectionRefusedError(111, "refused by the test")


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    return Connections(monkeypatch)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site.pages["/"] = lambda exchange: exchange.respond(b"in")
        yield site


async def _fetch(resolver: Resolver | None, *sent: tuple[str, bool]) -> list[int | FetchFailed]:
    fetcher = Fetcher(user_agent="t", deadline=5, max_body=1000, connections=4, resolver=resolver)
    results: list[int | FetchFailed] = []
    for url, exempt in sent:
        try:
            results.append((await fetcher.send(url, GET, exempt=exempt)).status)
        except FetchFailed as failure:
            results.append(failure)
    await fetcher.aclose()
    return results


def _refusal(url: str, resolver: Resolver | None = None) -> AddressRefused:
    (refused,) = asyncio.run(_fetch(resolver or Resolver({}), (url, False)))
    assert isinstance(refused, AddressRefused)
    return refused


def test_an_address_in_a_url_asks_no_resolver(connections: Connections) -> None:
    resolver = Resolver({})
    for url in ("http://127.0.0.1/", "http://[::1]/", "http://127.0.0.1../"):
        _refusal(url, resolver)
    assert (resolver.questions, connections.opened) == ([], [])


def test_a_name_is_connected_at_its_public_addresses_only(connections: Connections) -> None:
    mixed = ["10.0.0.1", "93.184.216.34", "::1", "2606:4700::1", "::ffff:7f00:1"]
    resolver = Resolver({"mixed.example": mixed})
    (failure,) = asyncio.run(_fetch(resolver, ("http://mixed.example/", False)))
    assert isinstance(failure, FetchFailed) and failure.reason == "connection refused"
    assert set(connections.opened) == {"93.184.216.34", "2606:4700::1"}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "fe80::1%lo", "::ffff:10.0.0.1", "0.0.0.0"])
def test_a_name_with_guarded_addresses_only_is_refused(connections: Connections, address: str) -> None:
    resolver = Resolver({"local.example": [address, "10.0.0.1"]})
    sent = [("http://local.example/", False)] * 3
    results = asyncio.run(_fetch(resolver, *sent))
    assert all(isinstance(result, AddressRefused) and address in result.reason for result in results)
    assert connections.opened == []
    assert len(resolver.questions) == 1, "the refusal is remembered"


def test_localhost_is_refused_by_what_it_resolves_to(site: Site) -> None:
    for name in ("localhost", "LOCALHOST", "localhost."):
        (refused,) = asyncio.run(_fetch(None, (urls.normalize(site.url("/", name)) or "", False)))
        assert isinstance(refused, FetchFailed)
        assert isinstance(refused, AddressRefused) or refused.kind == "dns"
    assert site.connections == 0


def test_a_name_that_changes_its_address_is_judged_at_every_connection(connections: Connections) -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34"]])
    resolver = Resolver({"rebind.example": answers})

    async def over_time() -> list[str]:
        reasons = []
        fetcher = Fetcher(user_agent="t", deadline=5, max_body=1000, connections=4, resolver=resolver)
        for _ in range(2):
            with pytest.raises(FetchFailed) as failed:
                await fetcher.send("http://rebind.example/", GET)
            reasons.append(failed.value.reason)
            fetcher._guard._resolvers._any._asked.clear()  # as after a minute
        await fetcher.aclose()
        return reasons

    public, local = asyncio.run(over_time())
    assert public == "connection refused"
    assert local.startswith("address 127.0.0.1 of rebind.example is loopback")
    assert connections.opened == ["93.184.216.34"]


def test_the_socket_is_guarded_even_if_the_resolver_is_not(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr("crawl_engine.http.transports.guard.GuardedResolver", lambda resolver: resolver)
    resolver = Resolver({"sly.example": ["127.0.0.1"], "two.example": ["127.0.0.1", "10.0.0.1"]})
    for name in ("sly", "two"):
        (refused,) = asyncio.run(_fetch(resolver, (f"http://{name}.example:{site.port}/", False)))
        assert isinstance(refused, AddressRefused)
        assert refused.host_key == f"{name}.example:{site.port}"
    assert site.connections == 0


@pytest.mark.parametrize(
    ("family", "sockaddr"),
    [
        (socket.AF_INET, ("127.0.0.1", 80)),
        (socket.AF_INET6, ("::ffff:127.0.0.1", 80, 0, 0)),
        (socket.AF_INET6, ("fe80::1%1", 80, 0, 1)),
        (socket.AF_INET, ("localhost", 80)),
    ],
)
def test_no_socket_is_made_for_a_guarded_address(family: int, sockaddr: tuple[Any, ...]) -> None:
    with pytest.raises(GuardedAddress):
        open_guarded_socket((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", sockaddr))


def test_a_connection_of_an_exempt_host_serves_no_other(site: Site) -> None:
    resolver = Resolver({"mine.example": ["127.0.0.1"], "theirs.example": ["127.0.0.1"]})
    mine, theirs = (f"http://{name}.example:{site.port}/" for name in ("mine", "theirs"))
    results = asyncio.run(_fetch(resolver, (mine, True), (theirs, False), (mine, True), (mine, False), (theirs, True)))
    assert [results[index] for index in (0, 2, 4)] == [200, 200, 200]
    for guarded in (results[1], results[3]):
        assert isinstance(guarded, AddressRefused), "also once a host is no longer exempt"
    assert site.connections == 2


def test_an_exempt_address_opens_no_other_port(site: Site) -> None:
    with serving() as other:
        results = asyncio.run(_fetch(None, (site.url("/"), True), (other.url("/"), False), (site.url("/"), False)))
    assert results[0] == 200
    assert all(isinstance(result, AddressRefused) for result in results[1:])
    assert (site.connections, other.connections) == (1, 0)


def test_names_are_no_literals() -> None:
    for host in ("a.example", "1.example", "127.0.0.1.nip.io", "localhost", "dead.beef", "1-2.example", "x1"):
        assert literal_address(host) is None


def test_a_host_is_checked_without_a_connection(connections: Connections) -> None:
    resolver = Resolver({"in.example": ["10.0.0.7"], "out.example": ["10.0.0.7", "8.8.8.8"]})

    async def check(url: str) -> str:
        fetcher = Fetcher(user_agent="t", deadline=5, max_body=1000, connections=4, resolver=resolver)
        try:
            await fetcher.check_address(url)
        except AddressRefused as refused:
            return refused.host_key
        finally:
            await fetcher.aclose()
        return ""

    hosts = ["in.example:81", "127.0.0.1:80", "[::1]:8080", "out.example:80"]
    assert [asyncio.run(check(f"http://{host}/")) for host in hosts] == [*hosts[:3], ""]
    assert connections.opened == []


def test_what_the_network_has_not_taken_is_discarded_with_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        opened = asyncio.run(address_guard.connect(Resolver({}), *server.getsockname(), exempt=True))
        with opened:
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)


def test_a_connection_that_is_ended_in_order_delivers_what_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        opened = asyncio.run(address_guard.connect(Resolver({}), *server.getsockname(), exempt=True))
        accepted, _ = server.accept()
        with accepted:
            opened.send(b"sent")
            address_guard.end_in_order(opened)
            opened.close()
            assert (accepted.recv(9), accepted.recv(9)) == (b"sent", b"")
