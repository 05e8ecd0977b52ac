"""What servers do to connections: one table, held by both wires, with and without TLS."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import uvloop
from msgspec import Struct

from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.host import HostRoute
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.unit.http.routes import trusting
from tests.unit.http.server import Exchange, Site, serving

pytestmark = pytest.mark.timeout(60)
WIRES = ("plain", "plain-tls", "httpcore-tls", "httpcore-proxy")
LOST = "connection lost while reading the body"
PAUSE = 0.15
"""Between an answer and what follows it."""


class Wire(Struct):
    """A site, and how its pages are asked for."""

    site: Site
    route: HostRoute | None
    tls: ssl.SSLContext | None


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Wire]:
    name: str = request.param
    with ExitStack() as stack:
        site = stack.enter_context(serving(authority.server_context() if name.endswith("tls") else None))
        trust = ssl.create_default_context(cafile=str(authority.path)) if name == "plain-tls" else None
        route = trusting(authority) if name == "httpcore-tls" else None
        if name == "httpcore-proxy":
            route = HostRoute(proxies=(f"http://127.0.0.1:{site.port}",))
        yield Wire(site, route, trust)


def ask(wire: Wire, *paths: str, request: Request | None = None) -> list[str]:
    """What became of the requests, one after the other: the body (with a `+` where more came), or the failure."""

    async def run() -> list[str]:
        fetcher = Fetcher(user_agent="t", deadline=5, max_body=1_000_000, connections=2, tls=wire.tls)
        told: list[str] = []
        for path in paths:
            try:
                response = await fetcher.send(
                    wire.site.url(path), request or Request(), route=wire.route, exempt=True
                )  # fmt: skip
                told.append(response.body.decode() + "+" * response.has_surplus)
            except FetchFailed as failure:
                told.append(failure.reason)
                assert failure.retryable == (failure.kind == "connection")
            while wire.site.served < len(wire.site.requests):
                await asyncio.sleep(PAUSE / 4)
        await fetcher.aclose()
        return told

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def seen(wire: Wire) -> str:
    """The requests that the server got, each path as one letter."""
    return "".join(exchange.path[1:] for exchange in wire.site.requests)


def answer(x: Exchange) -> None:
    x.respond(x.path[1:].encode())


def whole(text: str, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(text) if length is None else length}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + text.encode()


def swallow(x: Exchange) -> None:
    x.end() if x.nth > 1 else answer(x)


def swallow_rudely(x: Exchange) -> None:
    x.reset() if x.nth > 1 else answer(x)


def begin_and_close(x: Exchange) -> None:
    if x.nth == 1:
        return answer(x)
    x.raw(b"HTTP/1.1 200 OK\r\nContent-")
    x.end()
    return None


def close_after(x: Exchange) -> None:
    answer(x)
    x.end()


def close_soon_after(x: Exchange) -> None:
    answer(x)
    time.sleep(PAUSE)
    x.end()


def stray_before(x: Exchange) -> None:
    x.raw((b"X" if x.nth > 1 else b"") + whole(x.path[1:]))


def stray_after(x: Exchange) -> None:
    answer(x)
    time.sleep(PAUSE)
    x.raw(b"X")


def answer_twice_late(x: Exchange) -> None:
    answer(x)
    time.sleep(PAUSE)
    x.raw(whole("other"))


def other_before(x: Exchange) -> None:
    x.raw((whole("other") if x.nth > 1 else b"") + whole(x.path[1:]))


def without_length(x: Exchange) -> None:
    x.raw(b"HTTP/1.1 200 OK\r\n\r\n" + x.path[1:].encode())
    x.end()


def no_content(x: Exchange) -> None:
    x.raw(whole("", status="204 No Content", length=5))
    time.sleep(PAUSE)
    x.raw(b"other")


def unchanged(x: Exchange) -> None:
    x.raw(whole("", status="304 Not Modified", length=5))


def refuse_loosely(x: Exchange) -> None:
    """A head that another reader may understand otherwise: chunks, and a length."""
    x.raw(whole("", "Transfer-Encoding: chunked") + b"1\r\n" + x.path[1:].encode() + b"\r\n0\r\n\r\n")


def odd_head(x: Exchange) -> None:
    x.raw(b"HTTP/2 200\r\nodd\r\nX : y\r\n" + whole(x.path[1:]).partition(b"\r\n")[2])


SITUATIONS: dict[str, tuple[Callable[[Exchange], None], str, str, int]] = {
    "kept, closed before the answer": (swallow, "a b c", "abbcc", 3),
    "kept, reset before the answer": (swallow_rudely, "a b c", "abbcc", 3),
    "kept, closed in the head": (begin_and_close, "a b c", "abbcc", 3),
    "closed after the answer": (close_after, "a b c", "abc", 3),
    "closed a little later": (close_soon_after, "a b c", "abc", 3),
    "kept": (answer, "a b c", "abc", 1),
    "surplus": (lambda x: x.raw(whole("abc", length=1)), "a+ a+ a+", "abc", 3),
    "a byte before the next answer": (stray_before, "a b c", "abbcc", 3),
    "a byte before the next request": (stray_after, "a b c", "abc", 3),
    "an answer before the next request": (answer_twice_late, "a b c", "abc", 3),
    "an answer with the next answer": (other_before, "a b c", "abbcc", 3),
    "no length": (without_length, "a b c", "abc", 3),
    "204 with a length": (no_content, "  ", "abc", 3),
    "304 with a length": (unchanged, "  ", "abc", 1),
    "an odd head": (odd_head, "a b c", "abc", 3),
    "chunks and a length": (refuse_loosely, "a b c", "abc", 3),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_request_gets_its_own_answer(wire: Wire, name: str) -> None:
    serve, told, requests, connections = SITUATIONS[name]
    wire.site.pages.update(dict.fromkeys(("/a", "/b", "/c"), serve))
    assert " ".join(ask(wire, "/a", "/b", "/c")) == told
    assert (seen(wire), wire.site.connections) == (requests, connections)


def test_a_body_that_ends_too_early_is_asked_for_once(wire: Wire) -> None:
    wire.site.pages["/a"] = answer

    @wire.site.page("/b")
    def _(x: Exchange) -> None:
        x.raw(whole("b", length=9))
        x.end()

    assert ask(wire, "/a", "/b") == ["a", LOST]
    assert seen(wire) == "ab"


def test_a_body_without_length_that_tls_does_not_end_is_truncated(wire: Wire) -> None:
    @wire.site.page("/a")
    def _(x: Exchange) -> None:
        x.raw(b"HTTP/1.1 200 OK\r\n\r\na")
        x.connection.close()

    assert ask(wire, "/a") == [LOST if wire.site.scheme == "https" else "a"]


def test_a_connection_that_tls_does_not_end_is_closed_all_the_same(wire: Wire) -> None:
    def serve(x: Exchange) -> None:
        answer(x)
        x.connection.close()

    wire.site.pages.update(dict.fromkeys(("/a", "/b"), serve))
    assert ask(wire, "/a", "/b") == ["a", "b"]
    assert seen(wire) == "ab"


def test_a_post_is_not_sent_twice(wire: Wire) -> None:
    wire.site.pages.update({"/a": swallow, "/b": swallow})
    told = ask(wire, "/a", "/b", request=Request(method="POST", body="x"))
    assert told[0] == "a"
    assert told[1] in ("connection closed before a response", "connection reset")
    assert seen(wire) == "ab"


def test_a_request_is_sent_again_once(wire: Wire) -> None:
    wire.site.pages.update({"/a": answer, "/b": Exchange.end})
    told = ask(wire, "/a", "/b")
    assert told[1] in ("connection closed before a response", "connection reset")
    assert seen(wire) == "abb"


def test_a_head_with_a_body_is_none(wire: Wire) -> None:
    wire.site.pages.update({"/a": answer, "/b": answer})
    assert ask(wire, "/a", "/b", request=Request(method="HEAD")) == ["+", "+"]
    assert (seen(wire), wire.site.connections) == ("ab", 2)
