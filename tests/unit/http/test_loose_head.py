"""Heads that strict parsers refuse: read as RFC 9112 lets a client read them, in pieces of any size, or refused."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.http.transports.loose_head import is_strict, read_loosely
from crawl_engine.http.transports.plain_wire import PlainWire

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 4\r\n"
CHUNKS = b"4\r\npage\r\n0\r\n\r\n"

READABLE = {
    "a line without a colon": OK + b"X-XSS-Protection=1;\r\n" + LENGTH + b"\r\npage",
    "a fold behind such a line": OK + b"odd\r\n more\r\n" + LENGTH + b"\r\npage",
    "a blank before the colon": OK + b"X-Odd : a\r\n" + LENGTH + b"\r\npage",
    "a slash in a name": OK + b"a/b.php: no\r\n" + LENGTH + b"\r\npage",
    "a blank in a name": OK + b"X Powered By: PHP\r\n" + LENGTH + b"\r\npage",
    "a letter beyond ASCII in a name": OK + "X-Größe: 1\r\n".encode() + LENGTH + b"\r\npage",
    "an empty name": OK + b": nothing\r\n" + LENGTH + b"\r\npage",
    "equal lengths": OK + LENGTH * 2 + b"\r\npage",
    "equal lengths in a list": OK + b"Content-Length: 4, 4\r\n\r\npage",
    "chunks and a length": OK + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "chunks and lengths that differ": OK + LENGTH + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "HTTP/2": b"HTTP/2 200\r\n" + LENGTH + b"\r\npage",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n" + LENGTH + b"\r\npage",
    "lower case": b"http/1.1 200 ok\r\n" + LENGTH + b"\r\npage",
    "single line breaks": (OK + b"odd\r\n" + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + b"page",
    "an interim response": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"odd\r\n" + LENGTH + b"\r\npage",
}
UNREADABLE = {
    "lengths that differ": OK + LENGTH + b"Content-Length: 5\r\n\r\npage",
    "lengths of a list that differ": OK + b"Content-Length: 4, 5\r\n\r\npage",
    "a length that is no number": OK + b"Content-Length: four\r\n\r\npage",
    "a NUL in a name": OK + b"X\0: a\r\n" + LENGTH + b"\r\npage",
    "no status": b"HTTP/2 OK\r\n" + LENGTH + b"\r\npage",
    "no head": b"<p>page",
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
}


def fetch(answer: bytes, size: int) -> tuple[bytes, int]:
    """The bodies of two requests, and the connections they took. The answers come in pieces of that size."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                for at in range(0, len(answer), size):
                    writer.write(answer[at : at + size])
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        idle = IdleConnections()
        wire, bodies = PlainWire(headers={}, connections=1, idle=idle, resolvers=Resolvers()), b""
        for _ in range(2):
            request = OutgoingRequest("GET", url, CIMultiDict(), b"", RequestTerms(exempt=True))
            async with asyncio.timeout(5):
                response = await wire.handle_async_request(request)
                bodies += b"".join([piece async for piece in response.body])
        idle.close_all()
        server.close()
        return bodies

    return asyncio.run(main()), connections


@pytest.mark.parametrize("size", [1, 7, 9_999])
@pytest.mark.parametrize("name", READABLE)
def test_a_readable_head_is_read_and_its_connection_closed(name: str, size: int) -> None:
    assert fetch(READABLE[name], size) == (b"pagepage", 2)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_head_that_can_be_read_in_two_ways_or_in_none_fails_at_once(name: str) -> None:
    with pytest.raises(FetchFailed, match="invalid HTTP response") as failed:
        fetch(UNREADABLE[name], 9_999)
    assert (failed.value.kind, failed.value.retryable) == ("protocol", False)


@given(start=st.binary(max_size=60).map(lambda rest: b"HTTP/1.1 200 OK\r\n" + rest))
def test_any_head_is_strict_as_it_is_or_incomplete(start: bytes) -> None:
    head = read_loosely(start, len(start))
    if head is None:
        assert b"\n\n" not in start.replace(b"\r\n", b"\n")
    elif head != start:
        assert is_strict(head)
        assert read_loosely(head, len(head)) == head
