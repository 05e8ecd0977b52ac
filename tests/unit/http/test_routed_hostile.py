"""Hostile servers of HTTP/1.1 over TLS: each costs its own request, in bounded time and memory."""

import asyncio
import resource
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.process.http2_connection import frame

pytestmark = pytest.mark.timeout(60)

DEADLINE = 2.0
LONGEST_PAUSE = 1.0
"""Of the event loop, seconds; on a loaded machine a process waits for its turn."""
MOST_MEMORY = 60_000_000

Send = Callable[[bytes], Awaitable[None]]
Script = Callable[[Send], Awaitable[None]]

HEADERS, RST_STREAM, SETTINGS, GOAWAY = 1, 3, 4, 7


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


_HEAD = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HTTP1: dict[str, tuple[Script, str]] = {
    "interim": (forever(b"", b"HTTP/1.1 103 E\r\n\r\n"), "timeout"),
    "interim-with-headers": (forever(b"", b"HTTP/1.1 103 E\r\n" + b"L: x\r\n" * 1_000 + b"\r\n", times=1), "timeout"),
    "headers": (forever(_HEAD, b"X: y\r\n"), "protocol"),
    "header": (forever(_HEAD + b"X: ", b"y"), "protocol"),
    "many-headers": (once(_HEAD + b"X: y\r\n" * 900 + b"Content-Length: 0\r\n\r\n"), "protocol"),
    "tiny-chunks": (forever(_CHUNKED, b"1\r\nx\r\n"), "any"),
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


OK = frame(HEADERS, b"\x88", flags=4, stream=1)
"""Status 200."""
HTTP2: dict[str, tuple[Script, str]] = {
    "reset": (once(frame(RST_STREAM, b"\0\0\0\7", stream=1)), "connection"),
    "reset-in-the-body": (once(OK, frame(0, b"x", stream=1), frame(RST_STREAM, b"\0\0\0\2", stream=1)), "connection"),
    "goaway": (once(frame(GOAWAY, bytes(8) + b"canary" * 100)), "connection"),
    "closed": (then_close(), "connection"),
    "closed-in-the-body": (then_close(OK, frame(0, b"x", stream=1)), "connection"),
    "frame-too-long": (once(b"\xff\xff\xff\0\0\0\0\0\1" + bytes(10_000)), "any"),
    "no-frames": (then_close(b"\xff" * 10_000), "any"),
    "nothing": (once(), "timeout"),
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


@pytest.mark.parametrize("name", HTTP1)
def test_a_hostile_server_of_http1_over_tls_costs_its_request_alone(name: str, authority: Authority) -> None:
    script, kind = HTTP1[name]
    check(script, kind, authority, http2=False)


@pytest.mark.parametrize("name", HTTP2)
def test_a_server_of_http2_that_fails_costs_its_request_alone(name: str, authority: Authority) -> None:
    script, kind = HTTP2[name]
    check(script, kind, authority, http2=True)
