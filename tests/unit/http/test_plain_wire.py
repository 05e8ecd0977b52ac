"""The wire of plain hosts: what a server does to a connection reaches one request at most."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from multidict import CIMultiDict

from crawl_engine.http.address_guard import CachedResolver
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.http.transports.guard import Resolvers
from crawl_engine.http.transports.idle_connections import IdleConnections
from crawl_engine.http.transports.plain_wire import PlainWire
from tests.process.certificates import Authority
from tests.process.site import Site

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Client = Callable[[PlainWire, str], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def run(serve: Serve, client: Client) -> int:
    """The connections that the server got."""
    connections = 0

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        idle = IdleConnections()
        wire = PlainWire(headers={"Accept": "*/*"}, connections=2, idle=idle, resolvers=Resolvers())
        try:
            async with asyncio.timeout(20):
                await client(wire, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        finally:
            idle.close_all()
            server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return connections


async def ask(wire: PlainWire, url: str, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    request = OutgoingRequest(method, url, CIMultiDict(headers), body, RequestTerms(exempt=True))
    response = await wire.handle_async_request(request)
    received = [piece async for piece in response.body]
    return response.status_code, b"".join(received)


def answering(*answers: bytes) -> Serve:
    """Answers the requests of each connection in turn, then waits for its end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        await reader.read()

    return serve


@pytest.mark.parametrize(
    ("first", "method", "connections"),
    [
        (OK, "GET", 1),
        (OK.replace(b":", b" :"), "GET", 1),
        (OK[:-2], "HEAD", 1),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", "GET", 1),
        (CHUNKED + b"2;name=value\r\nok\r\n0\r\nX-Last: a trailer\r\nX-Other: b\r\n\r\n", "GET", 1),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, "GET", 1),
        (OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), "GET", 2),
        (OK.replace(b"1.1", b"1.0"), "GET", 2),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nOK", "GET", 2),
        (OK, "HEAD", 2),
    ],
)  # fmt: skip
def test_a_connection_serves_another_request_if_its_response_has_ended(
    first: bytes, method: str, connections: int
) -> None:
    async def client(wire: PlainWire, url: str) -> None:
        request = OutgoingRequest(method, url, CIMultiDict(), b"", RequestTerms(exempt=True))
        response = await wire.handle_async_request(request)
        names = [name for name, _ in response.raw_headers]
        assert not {b"X-Last", b"X-Other", b"Link", b"Content-Length "} & set(names)
        assert b"".join([piece async for piece in response.body]) in (b"ok", b"")
        response = await wire.handle_async_request(request)
        assert [name for name, _ in response.raw_headers] == names
        response.body.close()

    assert run(answering(first, first), client) == connections


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CHUNKED + b"2;" + b"x" * 900_000, "invalid HTTP response: more than 524288 bytes of headers"),
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * 600, "invalid HTTP response: Too many headers received"),
        (b"HTTP/1.1 200 " + b"x" * 600_000, "invalid HTTP response: more than 524288 bytes of headers"),
        (CHUNKED + b"2\r\nok\r\n0\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "invalid HTTP response: Got more than 65536"),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", "invalid HTTP response: Invalid HTTP header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", "invalid HTTP response: Duplicate"),
    ],
)  # fmt: skip
def test_a_broken_response_fails_and_closes_its_connection(answer: bytes, reason: str) -> None:
    async def client(wire: PlainWire, url: str) -> None:
        for _ in range(2):
            with pytest.raises(FetchFailed) as failed:
                await ask(wire, url)
            assert failed.value.reason.startswith(reason)
            assert (failed.value.kind, failed.value.retryable) == ("protocol", False)

    assert run(answering(answer, answer), client) == 2


def test_a_body_that_a_reset_ends_is_not_whole() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n<p>half")
        await asyncio.sleep(0.1)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def client(wire: PlainWire, url: str) -> None:
        with pytest.raises(FetchFailed, match="connection lost while reading the body"):
            await ask(wire, url)

    run(serve, client)


def test_a_body_that_nobody_reads_stops_its_server() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(500):
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    async def client(wire: PlainWire, url: str) -> None:
        request = OutgoingRequest("GET", url, CIMultiDict(), b"", RequestTerms(exempt=True))
        response = await wire.handle_async_request(request)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 30_000_000
        assert sum([len(piece) async for piece in response.body]) == 50_000_000

    run(serve, client)


def test_a_cancelled_request_closes_its_connection_and_frees_its_slot() -> None:
    ended = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        if b"POST" in await reader.readuntil(b"\r\n\r\n"):
            writer.write(OK)
        await reader.read()
        ended += 1

    async def client(wire: PlainWire, url: str) -> None:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.gather(ask(wire, url), ask(wire, url))
        assert await ask(wire, url, "POST") == (200, b"ok")
        assert ended == 6

    run(serve, client)


def test_a_response_that_overtakes_its_request_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await asyncio.sleep(1)

    async def client(wire: PlainWire, url: str) -> None:
        assert await ask(wire, url, "POST", bytes(30_000_000)) == (200, b"ok")
        assert await ask(wire, url) == (200, b"ok")

    assert run(serve, client) == 2


@pytest.mark.parametrize(("method", "header"), [("GET", "a\r\nX: b"), ("GET", "a\nX: b"), ("GET / X\r\n", "a")])
def test_nothing_is_smuggled_into_a_request(method: str, header: str) -> None:
    async def client(wire: PlainWire, url: str) -> None:
        with pytest.raises(FetchFailed, match="invalid HTTP request"):
            await ask(wire, url, method, Name=header)

    assert run(answering(OK), client) == 0


class Names:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    async def resolve(self, host: str) -> list[str]:
        self.asked.append(host)
        await asyncio.sleep(0.05)
        if self.fails:
            raise socket.gaierror(socket.EAI_AGAIN, "later")
        return ["192.0.2.1"]


def test_a_name_is_asked_for_once_by_many_requests() -> None:
    async def main() -> None:
        names = Names()
        resolver = CachedResolver(names)
        waiting = [asyncio.ensure_future(resolver.resolve("a.example")) for _ in range(9)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        assert await asyncio.gather(*waiting[1:]) == [["192.0.2.1"]] * 8
        assert await resolver.resolve("a.example") == ["192.0.2.1"]
        assert names.asked == ["a.example"]

    asyncio.run(main())


def test_a_name_that_was_not_resolved_is_asked_for_again() -> None:
    async def main() -> None:
        names = Names()
        names.fails = True
        resolver = CachedResolver(names)
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await resolver.resolve("a.example")
        names.fails = False
        assert await resolver.resolve("a.example") == ["192.0.2.1"]

    asyncio.run(main())


FETCH = """
import asyncio, sys
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.job import Request

async def fetch():
    fetcher = Fetcher(user_agent="test", deadline=10, max_body=10_000, connections=2)
    try:
        return (await fetcher.send(sys.argv[1], Request(), exempt=True)).status
    except FetchFailed as failed:
        return failed.kind
    finally:
        await fetcher.aclose()

print(asyncio.run(fetch()))
"""


def test_requests_trust_the_certificates_of_the_machine_alone(authority: Authority, secure: Site) -> None:
    def fetch(certificates: Path | str) -> str:
        variables = {**os.environ, "SSL_CERT_FILE": str(certificates), "SSL_CERT_DIR": os.devnull}
        command = [sys.executable, "-c", FETCH, secure.url("/")]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()

    assert (fetch(authority.path), fetch(os.devnull)) == ("200", "tls")
