"""Hostile servers of HTTP/2 and of HTTP/1.1 over TLS: each costs its own request, in bounded time and memory."""

import asyncio
import resource
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from unittest.mock import Mock

import h2.exceptions
import h2.settings
import hpack
import httpcore
import pytest

from engine.http.client import Fetcher
from engine.http.connector import Http2Connection
from engine.http.errors import FetchFailed
from engine.http.response import FetchResponse
from engine.http.routed_transport import to_fetch_failed
from engine.model.host import HostRoute, TlsRule
from engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.http2_connection import frame

pytestmark = pytest.mark.timeout(60)

DEADLINE = 2.0
LONGEST_PAUSE = 1.0
"""Of the event loop, seconds; on a loaded machine a process waits for its turn."""
MOST_MEMORY = 60_000_000
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 1, 4, 8

Send = Callable[[bytes], Awaitable[None]]
Script = Callable[[Send], Awaitable[None]]


def head(*pairs: tuple[str, str], flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, hpack.Encoder().encode(pairs), flags=flags, stream=1)


OK = head((":status", "200"), ("content-type", "text/html"))


def once(*frames: bytes) -> Script:
    async def script(send: Send) -> None:
        await send(b"".join(frames))
        await asyncio.sleep(60)

    return script


def then_close(*frames: bytes) -> Script:
    async def script(send: Send) -> None:
        await send(b"".join(frames))

    return script


def forever(first: bytes, repeated: bytes, *, pause: float = 0.0, times: int = 1_000) -> Script:
    async def script(send: Send) -> None:
        await send(first)
        while True:
            await send(repeated * times)
            await asyncio.sleep(pause)

    return script


def data(payload: bytes, flags: int = 0) -> bytes:
    return frame(DATA, payload, flags=flags, stream=1)


def sized(length: str) -> bytes:
    return head((":status", "200"), ("content-length", length))


def pushed() -> bytes:
    return frame(PUSH_PROMISE, b"\0\0\0\2" + hpack.Encoder().encode([(":path", "/")]), flags=4, stream=1)


def bomb() -> bytes:
    """A header of 4 kB that is named once and repeated by one byte each."""
    encoder = hpack.Encoder()
    block = encoder.encode([(":status", "200"), ("x", "y" * 4_000)])
    return frame(HEADERS, block + b"\xbe" * 12_000, flags=END_HEADERS, stream=1)


HTTP2: dict[str, tuple[Script, str]] = {
    "pings": (forever(b"", frame(PING, bytes(8))), "protocol"),
    "settings": (forever(b"", frame(SETTINGS)), "protocol"),
    "settings-that-differ": (forever(b"", frame(SETTINGS, b"\0\4\0\0\x40\0" * 100), times=50), "protocol"),
    "empty-data": (forever(OK, frame(DATA, stream=1)), "protocol"),
    "padding-alone": (forever(OK, frame(DATA, b"\xff" + bytes(255), flags=PADDED, stream=1), times=50), "any"),
    "tiny-data": (forever(OK, frame(DATA, b"x", stream=1)), "protocol"),
    "continuations": (forever(head((":status", "200"), flags=0), frame(CONTINUATION, stream=1)), "protocol"),
    "long-continuations": (
        forever(head((":status", "200"), flags=0), frame(CONTINUATION, bytes(16_000), stream=1), times=4), "protocol"
    ),
    "interim": (forever(b"", head((":status", "103"))), "protocol"),
    "window-updates": (forever(OK, frame(WINDOW_UPDATE, b"\0\0\0\1", stream=1)), "protocol"),
    "window-overflow": (once(OK, frame(WINDOW_UPDATE, b"\x7f\xff\xff\xff") * 2), "protocol"),
    "priorities": (forever(OK, frame(PRIORITY, b"\0\0\0\3\x10", stream=5)), "protocol"),
    "unknown-frames": (forever(OK, frame(77, b"x" * 9)), "protocol"),
    "resets-of-other-streams": (forever(OK, frame(RST_STREAM, bytes(4), stream=3)), "protocol"),
    "header-bomb": (once(bomb()), "protocol"),
    "many-headers": (once(head((":status", "200"), *((f"x{n}", "") for n in range(900)), flags=5)), "protocol"),
    "status-missing": (once(head(("content-type", "text/html"), flags=5)), "protocol"),
    "status-twice": (once(head((":status", "200"), (":status", "404"), flags=5)), "protocol"),
    "status-text": (once(head((":status", "abc"), flags=5)), "protocol"),
    "header-in-capitals": (once(head((":status", "200"), ("X-Y", "z"), flags=5)), "protocol"),
    "header-with-line-break": (once(head((":status", "200"), ("x", "a\r\nb: c"), flags=5)), "protocol"),
    "header-block-broken": (once(frame(HEADERS, b"\xff" * 50, flags=5, stream=1)), "protocol"),
    "frame-too-long": (once(b"\xff\xff\xff\0\0\0\0\0\1" + bytes(10_000)), "protocol"),
    "data-first": (once(frame(DATA, b"x", stream=1)), "protocol"),
    "push": (once(pushed()), "protocol"),
    "stream-of-ours-from-them": (once(head((":status", "200")).replace(b"\0\0\0\1", b"\0\0\0\2")), "protocol"),
    "length-too-short": (once(sized("3"), data(b"xxxxx", END_STREAM)), "protocol"),
    "length-too-long": (once(sized("9"), data(b"xxxxx", END_STREAM)), "protocol"),
    "http1-answer": (then_close(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"), "protocol"),
    "no-frames": (then_close(b"\xff" * 10_000), "protocol"),
    "reset": (once(frame(RST_STREAM, b"\0\0\0\7", stream=1)), "connection"),
    "reset-of-an-unknown-kind": (once(frame(RST_STREAM, b"\0\0\1\7", stream=1)), "connection"),
    "reset-in-the-body": (once(OK, data(b"x"), frame(RST_STREAM, b"\0\0\0\2", stream=1)), "connection"),
    "goaway": (once(frame(GOAWAY, bytes(8) + b"canary" * 100)), "connection"),
    "goaway-in-the-body": (once(OK, frame(GOAWAY, b"\0\0\0\1\0\0\0\2")), "connection"),
    "closed": (then_close(), "connection"),
    "closed-in-the-body": (then_close(OK, frame(DATA, b"x", stream=1)), "connection"),
    "nothing": (once(), "timeout"),
    "no-body": (once(OK), "timeout"),
    "drip": (forever(OK, frame(DATA, b"x", stream=1), pause=0.1, times=1), "timeout"),
    "drip-of-pings": (forever(OK, frame(PING, bytes(8)), pause=0.1, times=1), "timeout"),
    "endless": (forever(OK, frame(DATA, bytes(16_000), stream=1), times=4), "any"),
}  # fmt: skip

_HEAD = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HTTP1: dict[str, tuple[Script, str]] = {
    "interim": (forever(b"", b"HTTP/1.1 103 E\r\n\r\n"), "protocol"),
    "interim-with-headers": (forever(b"", b"HTTP/1.1 103 E\r\n" + b"L: x\r\n" * 1_000 + b"\r\n", times=1), "protocol"),
    "headers": (forever(_HEAD, b"X: y\r\n"), "protocol"),
    "header": (forever(_HEAD + b"X: ", b"y"), "protocol"),
    "many-headers": (once(_HEAD + b"X: y\r\n" * 900 + b"Content-Length: 0\r\n\r\n"), "protocol"),
    "tiny-chunks": (forever(_CHUNKED, b"1\r\nx\r\n"), "protocol"),
    "chunk-extension": (forever(_CHUNKED, b"1;" + b"x" * 200), "protocol"),
    "trailers": (forever(_CHUNKED + b"0\r\n", b"X: y\r\n"), "protocol"),
    "chunk-size": (once(_CHUNKED + b"f" * 30 + b"\r\n"), "protocol"),
    "lengths": (once(_HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "protocol"),
    "length-negative": (once(_HEAD + b"Content-Length: -1\r\n\r\n"), "protocol"),
    "length-too-long": (then_close(_HEAD + b"Content-Length: 9\r\n\r\nx"), "connection"),
    "length-huge": (once(_HEAD + b"Content-Length: 99999999999\r\n\r\nx"), "too-large"),
    "no-http": (once(b"SSH-2.0-x\r\n\r\n"), "protocol"),
    "closed": (then_close(), "connection"),
    "nothing": (once(), "timeout"),
    "drip": (forever(_HEAD + b"Content-Length: 90\r\n\r\n", b"x", pause=0.1, times=1), "timeout"),
    "drip-of-the-head": (forever(_HEAD, b"X: y\r\n", pause=0.1, times=1), "timeout"),
    "endless": (forever(_HEAD + b"\r\n", bytes(60_000), times=1), "too-large"),
    "endless-compressed": (forever(_HEAD + b"Content-Encoding: deflate\r\n\r\n", bytes(60_000), times=1), "encoding"),
}


@contextmanager
def serving(script: Script, context: ssl.SSLContext, first: bytes) -> Iterator[str]:
    """A server in a thread of its own: it reads the start of a request, and then follows the script."""
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        with suppress(OSError, asyncio.CancelledError):
            await reader.read(65_536)
            await send(first)
            draining = asyncio.ensure_future(drain(reader))
            try:
                await script(send)
            finally:
                draining.cancel()
        writer.close()

    async def drain(reader: asyncio.StreamReader) -> None:
        while await reader.read(65_536):
            pass

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context), loop).result(10)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:

        def end() -> None:
            server.close()
            for task in tasks:
                task.cancel()
            loop.call_later(0.02, loop.stop)

        loop.call_soon_threadsafe(end)
        thread.join(5)


async def measure_pauses(pauses: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        pauses.append(time.monotonic() - before - 0.01)


def fetch(url: str, authority: Authority, *, http2: bool) -> tuple[FetchResponse | FetchFailed, float, float]:
    """What became of a request, the seconds it took, and the longest pause of the loop meanwhile."""

    async def main() -> tuple[FetchResponse | FetchFailed, float, float]:
        route = HostRoute(tls=TlsRule(ca=str(authority.path)), http2=http2)
        fetcher = Fetcher(user_agent="t", deadline=DEADLINE, max_body=1_000_000, connections=4)
        pauses = [0.0]
        ticking = asyncio.ensure_future(measure_pauses(pauses))
        started = time.monotonic()
        try:
            outcome: FetchResponse | FetchFailed = await fetcher.send(url, Request(), route=route, exempt=True)
        except FetchFailed as failure:
            outcome = failure
        seconds = time.monotonic() - started
        ticking.cancel()
        await fetcher.aclose()
        return outcome, seconds, max(pauses)

    return asyncio.run(main())


def check(script: Script, kind: str, authority: Authority, *, http2: bool) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(script, authority.server_context(http2=http2), frame(SETTINGS) if http2 else b"") as url:
        outcome, seconds, pause = fetch(url, authority, http2=http2)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert isinstance(outcome, FetchFailed), outcome
    assert kind in ("any", outcome.kind), outcome.reason
    assert outcome.retryable == (outcome.kind in ("timeout", "connection")), outcome.reason
    assert "canary" not in outcome.reason
    assert seconds < DEADLINE + LONGEST_PAUSE
    assert pause < LONGEST_PAUSE
    assert grown < MOST_MEMORY


@pytest.mark.parametrize("name", HTTP2)
def test_a_hostile_server_of_http2_costs_its_request_alone(name: str, authority: Authority) -> None:
    script, kind = HTTP2[name]
    check(script, kind, authority, http2=True)


@pytest.mark.parametrize("name", HTTP1)
def test_a_hostile_server_of_http1_over_tls_costs_its_request_alone(name: str, authority: Authority) -> None:
    script, kind = HTTP1[name]
    check(script, kind, authority, http2=False)


def test_a_body_with_trailers_pings_and_small_frames_is_read(authority: Authority) -> None:
    """What the limits allow: servers that send each part as it comes."""
    parts = [frame(DATA, b"x" * 60, stream=1) + frame(PING, bytes(8)) for _ in range(300)]
    trailers = frame(HEADERS, hpack.Encoder().encode([("x-sum", "1")]), flags=5, stream=1)
    script = once(head((":status", "103")) * 3, OK, *parts, trailers)
    with serving(script, authority.server_context(http2=True), frame(SETTINGS)) as url:
        outcome, _, _ = fetch(url, authority, http2=True)
    assert isinstance(outcome, FetchResponse)
    assert (outcome.status, outcome.body) == (200, b"x" * 18_000)


GRACEFUL = frame(GOAWAY, b"\0\0\0\1" + bytes(4))
BODY = frame(DATA, b"page", flags=END_STREAM, stream=1)


@pytest.mark.parametrize(
    "parts", [(OK + GRACEFUL + BODY,), (GRACEFUL + OK, BODY), (OK, GRACEFUL, BODY), (OK + BODY + GRACEFUL,)]
)
def test_a_response_is_complete_though_the_server_accepts_no_further_request(
    parts: tuple[bytes, ...], authority: Authority
) -> None:
    async def script(send: Send) -> None:
        for part in parts:
            await send(part)
            await asyncio.sleep(0.05)

    with serving(script, authority.server_context(http2=True), frame(SETTINGS)) as url:
        outcome, _, _ = fetch(url, authority, http2=True)
    assert isinstance(outcome, FetchResponse), outcome
    assert outcome.take_body() == b"page"


def test_a_connection_that_accepts_no_stream_carries_no_request() -> None:
    connection = Http2Connection(httpcore.Origin(b"https", b"h", 443), Mock())
    assert connection.accepts_requests
    settings = connection._h2_state.remote_settings
    settings.update({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    settings.acknowledge()
    assert not connection.accepts_requests
    error = httpcore.LocalProtocolError(h2.exceptions.TooManyStreamsError("Max outbound streams is 0, 0 open"))
    error.__cause__ = error.args[0]
    failure = to_fetch_failed(error, host="h")
    assert (failure.kind, failure.retryable) == ("connection", True)
