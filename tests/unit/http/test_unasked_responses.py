"""What a server sends unasked behind a response is taken for no other page."""

import asyncio

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.host import HostRoute
from crawl_engine.model.job import Request
from tests.unit.http.server import LoopbackFetcher

STALE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale"
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
EXTRAS = (STALE, TIMEOUT, STALE[:20], b"\r\n", b"<p>rest")


async def fetch_pages(extra: bytes, pause: float | None, *, by_proxy: bool) -> tuple[list[bytes], int]:
    """The bodies of four pages, and how many connections they took. `extra` comes `pause` s after the second one."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1].rpartition(b"/")[2]
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path)
            if path == b"p2" and pause is None:
                answer += extra
            writer.write(answer)
            if path == b"p2" and pause is not None:
                await asyncio.sleep(pause)
                writer.write(extra)

    async def serve_until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(serve_until_closed, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=1_000_000, connections=4)
    route = HostRoute(proxies=(f"http://127.0.0.1:{port}",)) if by_proxy else None
    bodies = []
    for number in range(1, 5):
        try:
            response = await fetcher.send(f"http://127.0.0.1:{port}/p{number}", Request(), route=route)
            bodies.append(response.take_body())
        except FetchFailed as failure:
            bodies.append(failure.reason.encode())
        await asyncio.sleep(0.15)
    await fetcher.aclose()
    server.close()
    return bodies, connections


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("extra", EXTRAS, ids=["response", "408", "half", "line break", "rest"])
def test_what_an_idle_connection_gets_is_no_page(extra: bytes, by_proxy: bool) -> None:
    bodies, connections = asyncio.run(fetch_pages(extra, 0.05, by_proxy=by_proxy))
    assert bodies == [b"p1", b"p2", b"p3", b"p4"]
    assert connections == 2


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("extra", [STALE, STALE[:20], b"<p>rest"], ids=["response", "half", "rest"])
def test_a_response_with_more_behind_it_on_a_kept_connection_is_asked_for_again(extra: bytes, by_proxy: bool) -> None:
    """It may be the response to another request; on the new connection it is what it is."""
    assert asyncio.run(fetch_pages(extra, None, by_proxy=by_proxy)) == ([b"p1", b"p2", b"p3", b"p4"], 3)


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
def test_a_connection_without_such_bytes_is_kept(by_proxy: bool) -> None:
    assert asyncio.run(fetch_pages(b"", 0.05, by_proxy=by_proxy)) == ([b"p1", b"p2", b"p3", b"p4"], 1)
