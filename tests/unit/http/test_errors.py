"""Failures of Fetcher.send: bounded in time, one line, marked as retryable or not."""

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest

from crawl_engine.errors import one_line
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import Request
from tests.process.stopwatch import Stopwatch
from tests.unit.http.server import Exchange, LoopbackFetcher, Site, serving

GET = Request()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


async def _send(url: str, request: Request = GET, *, deadline: float = 5, **options: object) -> FetchResponse:
    fetcher = LoopbackFetcher(user_agent="t", deadline=deadline, max_body=1_000_000, connections=4, **options)  # type: ignore[arg-type]
    try:
        return await fetcher.send(url, request)
    finally:
        await fetcher.aclose()


def failure(url: str, request: Request = GET, **options: object) -> FetchFailed:
    with pytest.raises(FetchFailed) as failed:
        asyncio.run(_send(url, request, **options))  # type: ignore[arg-type]
    assert "\n" not in failed.value.reason
    assert "127.0.0.1" not in failed.value.reason
    return failed.value


def summary(failed: FetchFailed) -> tuple[str, str, bool]:
    return failed.reason, failed.kind, failed.retryable


class Resolver:
    """Resolves every name to the outcome of the test."""

    def __init__(self, outcome: str | OSError) -> None:
        self.outcome = outcome
        self.resolved_names: list[str] = []

    async def resolve(self, host: str) -> list[str]:
        self.resolved_names.append(host)
        if isinstance(self.outcome, OSError):
            raise self.outcome
        return [self.outcome]


@pytest.mark.parametrize("slow", ["accept", "headers", "body"])
def test_a_slow_response_ends_at_the_deadline(site: Site, slow: str) -> None:
    @site.page("/")
    def _(x: Exchange) -> None:
        if slow == "accept":
            site.stopping.wait(10)
            return
        text = (
            b"HTTP/1.1 200 OK\r\nX-Long: " if slow == "headers" else b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"
        )
        x.raw(text)
        while not site.stopping.wait(0.05):
            x.raw(b"x")

    watch, start = Stopwatch(), time.monotonic()
    assert summary(failure(site.url("/"), deadline=0.4)) == ("timeout after 0.4 s", "timeout", True)
    assert time.monotonic() - start > 0.35
    assert watch.seconds() < 2


def test_a_deadline_frees_its_connection(site: Site) -> None:
    site.pages["/slow"] = lambda x: site.stopping.wait(10) and None
    site.pages["/quick"] = lambda x: x.respond(b"ok")

    async def both() -> FetchResponse:
        fetcher = LoopbackFetcher(user_agent="t", deadline=0.3, max_body=1000, connections=1)
        with pytest.raises(FetchFailed):
            await fetcher.send(site.url("/slow"), GET)
        answer = await fetcher.send(site.url("/quick"), GET)
        await fetcher.aclose()
        return answer

    assert asyncio.run(both()).body == b"ok"


def test_a_cancelled_send_is_cancelled(site: Site) -> None:
    site.pages["/slow"] = lambda x: site.stopping.wait(10) and None

    async def cancelled() -> None:
        task = asyncio.create_task(_send(site.url("/slow")))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_a_refused_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        assert summary(failure(url)) == ("connection refused", "connection", True)


def test_a_reset_connection(site: Site) -> None:
    site.pages["/"] = lambda x: x.reset()
    assert summary(failure(site.url("/"), Request(method="POST"))) == ("connection reset", "connection", True)


def test_a_connection_closed_without_a_response(site: Site) -> None:
    site.pages["/"] = lambda x: x.connection.close()
    failed = failure(site.url("/"), Request(method="POST"))
    assert failed.kind == "connection" and failed.retryable
    assert failed.reason in ("connection closed before a response", "connection reset")


def test_an_unknown_host_name() -> None:
    unknown = Resolver(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    failed = failure("http://shop.example/", resolver=unknown)
    assert summary(failed) == ("cannot resolve host shop.example", "dns", False)
    assert unknown.resolved_names == ["shop.example"]


def test_a_resolver_failure_is_retryable() -> None:
    down = Resolver(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
    assert summary(failure("http://shop.example/", resolver=down)) == ("cannot resolve host shop.example", "dns", True)


def test_the_resolver_provides_the_address(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"here")
    answer = asyncio.run(_send(f"http://shop.example:{site.port}/", resolver=Resolver("127.0.0.1")))
    assert answer.body == b"here"
    assert site.requests[0].headers["host"] == f"shop.example:{site.port}"


def test_a_body_shorter_than_declared(site: Site) -> None:
    @site.page("/")
    def _(x: Exchange) -> None:
        x.respond(b"half", length=100)
        x.connection.close()

    assert summary(failure(site.url("/"))) == ("connection lost while reading the body", "connection", True)


def test_a_body_longer_than_declared_ends_where_its_length_says(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"0123456789", length=4)
    response = asyncio.run(_send(site.url("/")))
    assert (response.body, response.has_surplus) == (b"0123", True)


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_is_not_read_to_its_end(site: Site, declared: bool) -> None:
    sent = threading.Event()

    @site.page("/")
    def _(x: Exchange) -> None:
        length = b"Content-Length: 500000000\r\n" if declared else b""
        x.raw(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")
        for _ in range(500):
            x.raw(b"x" * 1_000_000)
        sent.set()

    failed = failure(site.url("/"))
    assert summary(failed) == ("body over 1000000 bytes (max_body)", "too-large", False)
    assert "max_body" in failed.remedy
    assert not sent.is_set()


@pytest.mark.parametrize(
    ("encoding", "body", "reason", "retryable"),
    [
        ("gzip", b"plain text", "bad encoding gzip", False),
        ("gzip", gzip.compress(b"page" * 500, mtime=0)[:-9], "bad encoding gzip (truncated)", True),
        ("br", b"\xff\xff\xff plain", "bad encoding br", False),
        ("deflate", b"plain text", "bad encoding deflate", False),
        ("zstd", b"plain text", "bad encoding zstd", False),
        ("gzip, gzip", gzip.compress(b"plain text", mtime=0), "bad encoding gzip", False),
        ("gzip, br, gzip", b"x", "bad encoding gzip, br, gzip (only 2 layers are supported)", False),
    ],
)
def test_bodies_that_do_not_match_their_encoding(
    site: Site, encoding: str, body: bytes, reason: str, retryable: bool
) -> None:
    site.pages["/"] = lambda x: x.respond(body, f"Content-Encoding: {encoding}")
    assert summary(failure(site.url("/"))) == (reason, "encoding", retryable)


def test_encodings_in_several_headers_are_one_list(site: Site) -> None:
    twice = brotli.compress(gzip.compress(b"page", mtime=0))
    site.pages["/twice"] = lambda x: x.respond(twice, "Content-Encoding: gzip", "Content-Encoding: br")
    site.pages["/once"] = lambda x: x.respond(
        gzip.compress(b"page", mtime=0), "Content-Encoding: identity", "content-encoding: gzip"
    )
    assert asyncio.run(_send(site.url("/twice"))).take_body() == b"page"
    assert asyncio.run(_send(site.url("/once"))).take_body() == b"page"


def test_a_response_that_is_not_http(site: Site) -> None:
    site.pages["/"] = lambda x: x.raw(b"SSH-2.0-OpenSSH_9.9\r\n\x1b[31m\r\n")
    failed = failure(site.url("/"))
    assert (failed.kind, failed.retryable) == ("protocol", False)
    assert failed.reason.startswith("invalid HTTP response")
    assert failed.reason.isprintable()


@pytest.mark.parametrize(
    "answer", [b"pass-word\r\n\r\n", b"HTTP/1.1 pass-word\r\n\r\n", b"HTTP/1.1 200 OK\r\npass-word\0: x\r\n\r\n"]
)
def test_what_a_broken_response_repeats_is_not_said(site: Site, answer: bytes) -> None:
    site.pages["/"] = lambda x: x.raw(answer)
    assert "pass-word" not in failure(site.url("/")).reason


def test_an_oversized_header(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"", "X-Huge: " + "x" * 2_000_000)
    assert failure(site.url("/")).kind == "protocol"


@pytest.mark.parametrize("url", ["", "ftp://h/", "/relative", "http://u:secret@[::1/"])
def test_invalid_urls(url: str) -> None:
    failed = failure(url)
    assert summary(failed) == ("not an absolute http or https URL", "url", False)
    assert "secret" not in str(failed)


@pytest.mark.parametrize(
    "header", [("X-A", "a\r\nX-B: b"), ("X A", "a"), ("X:A", "a"), ("X-A", "a\0"), ("X-A\r\n", "a")]
)
def test_a_header_cannot_smuggle_another(site: Site, header: tuple[str, str]) -> None:
    assert failure(site.url("/"), Request(headers=(header,))).kind == "header"
    assert site.requests == []


def test_a_cookie_cannot_smuggle_a_header(site: Site) -> None:
    assert failure(site.url("/"), Request(cookies=(("a", "b\r\nX: y"),))).kind == "header"


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A TLS server on loopback with a self-signed certificate for `localhost`: its port and the certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to create a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
            except OSError:
                continue

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], certificate
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_an_untrusted_certificate(secure: tuple[int, Path]) -> None:
    failed = failure(f"https://localhost:{secure[0]}/", resolver=Resolver("127.0.0.1"))
    assert (failed.kind, failed.retryable) == ("tls", False)
    assert failed.reason.startswith("TLS: invalid certificate: self")


def test_a_certificate_for_another_name(secure: tuple[int, Path]) -> None:
    trust = ssl.create_default_context(cafile=str(secure[1]))
    url = f"https://shop.example:{secure[0]}/"
    failed = failure(url, resolver=Resolver("127.0.0.1"), tls=trust)
    assert failed.kind == "tls" and "shop.example" in failed.reason


def test_a_trusted_certificate(secure: tuple[int, Path]) -> None:
    trust = ssl.create_default_context(cafile=str(secure[1]))
    answer = asyncio.run(_send(f"https://localhost:{secure[0]}/", resolver=Resolver("127.0.0.1"), tls=trust))
    assert answer.body == b"secret"


def test_tls_to_a_server_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        failed = failure(f"https://127.0.0.1:{listener.getsockname()[1]}/")
        assert (failed.kind, failed.retryable) == ("tls", False)


def test_reasons_are_one_clean_line() -> None:
    assert one_line("a\n b\t\x1b[31mred\u202e") == "a b ?[31mred?"
    assert len(one_line("x" * 500)) == 200


@pytest.mark.parametrize("interim", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_endless_interim_responses_are_an_invalid_answer(site: Site, interim: str) -> None:
    @site.page("/")
    def _(x: Exchange) -> None:
        while True:
            x.raw(f"HTTP/1.1 {interim}\r\n\r\n".encode() * 1_000)

    assert summary(failure(site.url("/"))) == (
        "invalid HTTP response: more than 100 interim responses",
        "protocol",
        False,
    )


def test_some_interim_responses_are_skipped(site: Site) -> None:
    @site.page("/")
    def _(x: Exchange) -> None:
        x.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 99)
        x.respond(b"page")

    assert asyncio.run(_send(site.url("/"))).body == b"page"
