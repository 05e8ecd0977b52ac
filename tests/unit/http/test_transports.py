"""Each transport of a request's chain alone, over one that answers from memory."""

import asyncio

import httpx
import pytest
from multidict import CIMultiDict

from crawl_engine.http.address_guard import GuardedAddress
from crawl_engine.http.cookies import SessionCookies
from crawl_engine.http.errors import AddressRefused, FetchFailed, ProxiedNameRefused, StaleConnection
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms, RequestTransport, WireBody, WireResponse
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.transports import route as route_module
from crawl_engine.http.transports.body import BodyTransport
from crawl_engine.http.transports.guard import GuardTransport, Resolvers
from crawl_engine.http.transports.host_turn import HostTurnTransport
from crawl_engine.http.transports.route import RouteTransport
from crawl_engine.http.transports.session_cookies import CookieTransport
from crawl_engine.model.host import HostRoute, TlsRule

URL = "http://shop.example/a"
Headers = tuple[tuple[bytes, bytes], ...]


class MemoryBody(WireBody):
    def __init__(self, *pieces: bytes, declared: int | None = None, pause: float = 0.0) -> None:
        self._pieces = list(pieces)
        self._pause = pause
        self.declared = declared
        self.received = 0
        self.is_closed = False

    async def read_piece(self, size: int) -> bytes:
        await asyncio.sleep(self._pause)
        piece = self._pieces.pop(0) if self._pieces else b""
        self.received += len(piece)
        return piece

    @property
    def at_end(self) -> bool:
        return not self._pieces

    def close(self) -> None:
        self.is_closed = True


class MemoryWire(httpx.AsyncBaseTransport):
    """Answers each request with the same head; keeps the requests."""

    def __init__(self, body: MemoryBody | None = None, *, status: int = 200, headers: Headers = ()) -> None:
        self.requests: list[OutgoingRequest] = []
        self.body = body or MemoryBody(b"page")
        self._status = status
        self._headers = headers

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        self.requests.append(request)
        return WireResponse(self._status, self._headers, self.body, request)


def request(url: str = URL, terms: RequestTerms | None = None) -> OutgoingRequest:
    return OutgoingRequest("GET", url, CIMultiDict(), b"", terms)


def send(transport: RequestTransport, *requests: OutgoingRequest) -> list[FetchResponse]:
    async def send_all() -> list[FetchResponse]:
        return [(await transport.handle_async_request(each)).fetched for each in requests]

    return asyncio.run(send_all())


def body_over(wire: MemoryWire, *, deadline: float = 5.0, max_body: int = 1_000) -> BodyTransport:
    return BodyTransport(wire, deadline=deadline, max_body=max_body)


class Turns:
    def __init__(self) -> None:
        self.events: list[str] = []

    async def begin(self) -> None:
        self.events.append("begin")

    async def begin_again(self) -> None:
        self.events.append("begin again")

    def end(self, response: FetchResponse) -> None:
        self.events.append(f"end {response.status}")


def test_each_request_takes_a_turn_and_reports_its_response() -> None:
    turns = Turns()
    transport = HostTurnTransport(body_over(MemoryWire()))
    send(transport, request(terms=RequestTerms(turn=turns)), request(terms=RequestTerms(turn=turns)), request())
    assert turns.events == ["begin", "end 200", "begin", "end 200"]


class StaleWire(MemoryWire):
    """Swallows as many requests."""

    def __init__(self, swallowed: int) -> None:
        super().__init__()
        self._swallowed = swallowed

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        response = await super().handle_async_request(request)
        if len(self.requests) <= self._swallowed:
            raise StaleConnection("connection reset", kind="connection", retryable=True)
        return response


def test_what_a_stale_connection_swallows_is_sent_again_once_in_another_turn() -> None:
    turns, wire = Turns(), StaleWire(1)
    send(HostTurnTransport(body_over(wire)), request(terms=RequestTerms(turn=turns)))
    assert turns.events == ["begin", "begin again", "end 200"]
    assert wire.requests[0].is_repeated, "on a new connection"
    turns, wire = Turns(), StaleWire(2)
    with pytest.raises(FetchFailed, match="connection reset"):
        send(HostTurnTransport(body_over(wire)), request(terms=RequestTerms(turn=turns)))
    assert (turns.events, len(wire.requests)) == (["begin", "begin again"], 2)


def test_a_request_that_gets_no_turn_is_not_sent() -> None:
    class NoTurn(Turns):
        async def begin(self) -> None:
            raise FetchFailed("rests", kind="connection", retryable=True)

    wire = MemoryWire()
    with pytest.raises(FetchFailed, match="rests"):
        send(HostTurnTransport(body_over(wire)), request(terms=RequestTerms(turn=NoTurn())))
    assert wire.requests == []


@pytest.mark.parametrize(
    ("terms", "sent"),
    [
        (RequestTerms(), "s=1"),
        (RequestTerms(sends_cookies=False), None),
    ],
)
def test_cookies_are_kept_and_sent_to_their_site(terms: RequestTerms, sent: str | None) -> None:
    wire = MemoryWire(headers=((b"Set-Cookie", b"s=1; Path=/"),))
    transport = CookieTransport(body_over(wire), SessionCookies())
    first, _ = send(transport, request(), request(terms=terms))
    assert first.changed_site
    assert wire.requests[1].headers.get("cookie") == sent


def test_cookies_that_are_not_kept_are_not_sent() -> None:
    wire = MemoryWire(headers=((b"Set-Cookie", b"s=1; Path=/"),))
    first, _ = send(
        CookieTransport(body_over(wire), SessionCookies()), request(terms=RequestTerms(keeps_cookies=False)), request()
    )
    assert not first.changed_site
    assert "cookie" not in wire.requests[1].headers


def test_a_body_is_read_whole_with_the_facts_of_its_head() -> None:
    headers = ((b"Content-Type", b"text/html"), (b"Retry-After", b"7"))
    [response] = send(
        body_over(MemoryWire(MemoryBody(b"a" * 70_000, b"b"), headers=headers), max_body=80_000), request()
    )
    assert (len(response.body), response.received) == (70_001, 70_001)
    assert (response.content_type, response.retry_after) == ("text/html", 7.0)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (MemoryBody(b"x" * 600, b"x" * 600), "too-large"),
        (MemoryBody(b"x", declared=1_001), "too-large"),
        (MemoryBody(b"x", pause=5), "timeout"),
    ],
    ids=["long", "declared", "slow"],
)
def test_a_body_beyond_its_limits_is_closed(body: MemoryBody, kind: str) -> None:
    with pytest.raises(FetchFailed) as failed:
        send(body_over(MemoryWire(body), deadline=0.2), request())
    assert failed.value.kind == kind
    assert body.is_closed


def test_the_body_of_a_redirect_is_dropped() -> None:
    [response] = send(body_over(MemoryWire(status=302, headers=((b"Location", b"/b"),))), request())
    assert (response.body, response.location) == (b"", "http://shop.example/b")


def test_a_challenge_that_is_answered_has_no_body() -> None:
    terms = RequestTerms(answer_challenge=lambda headers: "Digest x")
    [response] = send(body_over(MemoryWire(status=401)), request(terms=terms))
    assert (response.body, response.challenge_answer) == (b"", "Digest x")


@pytest.mark.parametrize(
    ("url", "terms", "error"),
    [
        ("http://10.0.0.1/", RequestTerms(), AddressRefused),
        ("http://10.0.0.1/", RequestTerms(find_exemption=lambda: False), AddressRefused),
        ("http://10.0.0.1/", RequestTerms(find_exemption=lambda: True), None),
        ("http://10.0.0.1/", RequestTerms(exempt=True), None),
        ("http://shop.example/", RequestTerms(route=HostRoute(proxies=("http://p:1",))), ProxiedNameRefused),
        ("http://93.184.215.14/", RequestTerms(route=HostRoute(proxies=("http://p:1",))), None),
    ],
)
def test_the_guard_judges_the_url(url: str, terms: RequestTerms, error: type[Exception] | None) -> None:
    wire = MemoryWire()
    transport = BodyTransport(GuardTransport(wire, Resolvers()), deadline=5, max_body=1_000)
    if error is None:
        send(transport, request(url, terms))
    else:
        with pytest.raises(error):
            send(transport, request(url, terms))
    assert len(wire.requests) == (error is None)


def test_an_address_that_a_wire_finds_is_refused_or_exempt() -> None:
    class GuardedWire(MemoryWire):
        async def handle_async_request(self, request: httpx.Request) -> WireResponse:
            response = await super().handle_async_request(request)
            if not self.requests[-1].terms.exempt:
                raise GuardedAddress("10.1.2.3", "private")
            return response

    wire = GuardedWire()
    transport = BodyTransport(GuardTransport(wire, Resolvers()), deadline=5, max_body=1_000)
    with pytest.raises(AddressRefused, match=r"address 10\.1\.2\.3 of shop\.example is private"):
        send(transport, request())
    [response] = send(transport, request(terms=RequestTerms(find_exemption=lambda: True)))
    assert response.body == b"page"


def test_the_route_picks_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, pooled = MemoryWire(), MemoryWire()
    monkeypatch.setattr(route_module, "PlainWire", lambda **_: plain)
    monkeypatch.setattr("crawl_engine.http.transports.httpcore_wire.HttpcoreWire", lambda **_: pooled)
    transport = RouteTransport(headers={}, connections=1, deadline=5, resolvers=Resolvers())
    tls, proxied = HostRoute(tls=TlsRule(verify=False)), HostRoute(proxies=("http://p:1",))
    cases = [
        (URL, None, plain), (URL, tls, plain), (URL, proxied, pooled), ("https://shop.example/", tls, pooled),
        ("https://shop.example/", HostRoute(http2=True), pooled), ("https://shop.example/", None, plain),
    ]  # fmt: skip
    for url, route, wire in cases:
        asyncio.run(send_raw(transport, request(url, RequestTerms(route=route))))
        assert wire.requests.pop().target == url
    assert plain.requests == pooled.requests == []


async def send_raw(transport: httpx.AsyncBaseTransport, sent: OutgoingRequest) -> None:
    await transport.handle_async_request(sent)
