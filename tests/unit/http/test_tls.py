"""Responses over TLS are read whatever the records they come in, and however they end."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.host import HostRoute
from crawl_engine.model.job import Request
from tests.process.certificates import Authority
from tests.unit.http.routes import trusting
from tests.unit.http.server import LoopbackFetcher

pytestmark = pytest.mark.timeout(60)

Serve = Callable[[socket.socket], None]
Trust = tuple[Authority, HostRoute | None, Callable[[], asyncio.AbstractEventLoop]]


@pytest.fixture(params=["direct", "direct, asyncio", "route"])
def trust(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trust:
    """An authority, a route that trusts it, or None where every request does, and the loop of nodes or of Python."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    loop = asyncio.new_event_loop if "asyncio" in request.param else uvloop.new_event_loop
    return authority, trusting(authority) if request.param == "route" else None, loop


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve_quietly, args=(connection,), daemon=True).start()

    def serve_quietly(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def fetch(url: str, trust: Trust) -> bytes:
    async def send() -> bytes:
        fetcher = LoopbackFetcher(user_agent="t", deadline=20, max_body=1_000_000, connections=4)
        try:
            response = await fetcher.send(url, Request(), route=trust[1])
            return response.take_body()
        finally:
            await fetcher.aclose()

    with asyncio.Runner(loop_factory=trust[2]) as runner:
        return runner.run(send())


def serve_in_records(context: ssl.SSLContext, body: bytes, size: int) -> Serve:
    """Sends the response in records of so many bytes."""
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(16_384)
            for start in range(0, len(response), size):
                secure.sendall(response[start : start + size])
            with suppress(ssl.SSLError):
                secure.recv(16_384)

    return serve


@pytest.mark.parametrize(("length", "size"), [(1_200, 1), (9_000, 1), (900_000, 60), (990_000, 16_384), (0, 500)])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_body_is_read_whatever_the_size_of_its_records(
    trust: Trust, length: int, size: int, version: ssl.TLSVersion
) -> None:
    context, body = trust[0].server_context(), b"<p>small</p>" * (length // 12)
    context.maximum_version = version
    with serving(serve_in_records(context, body, size)) as url:
        assert fetch(url, trust) == body


@pytest.mark.parametrize("is_clean", [False, True], ids=["cut", "clean"])
def test_records_that_arrive_with_the_end_are_read(trust: Trust, is_clean: bool) -> None:
    context = trust[0].server_context()

    def serve(connection: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        request = b""
        while not request:
            incoming.write(connection.recv(16_384))
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                request = tls.read(16_384)
            connection.sendall(outgoing.read())
        for part in (b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\n", b"sec", b"ure"):
            tls.write(part)
        if is_clean:
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
        connection.sendall(outgoing.read())

    with serving(serve) as url:
        assert fetch(url, trust) == b"secure"


def test_a_server_without_tls_is_refused_at_once(trust: Trust) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(16_384)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(16_384)

    with serving(serve) as url, pytest.raises(FetchFailed) as caught:
        fetch(url, trust)
    assert caught.value.reason == "TLS: the server answers without TLS at this port; is its URL http://?"


def test_a_server_that_closes_before_tls_stands_is_told_and_asked_again(trust: Trust) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(16_384)

    with serving(serve) as url, pytest.raises(FetchFailed) as caught:
        fetch(url, trust)
    assert caught.value.reason == "TLS: the server closed the connection; does it speak TLS at this port?"
    assert caught.value.retryable
