"""A web server in its own process: files of a folder, or generated pages, at once or after a delay.

`/.bench` returns, as JSON, the number of requests since the last reset (`/.bench?forget`), of those answered with 304,
and the time of the first (`time.monotonic()`, which all processes of a machine share).
"""

import argparse
import asyncio
import json
import mimetypes
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import uvloop

from tests.bench.pages import SCRIPT, STYLE, items, number_of, page, scripted_page, small_page

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"


class _Counter:
    """Counts requests."""

    def __init__(self) -> None:
        self.hits = 0
        self.unchanged = 0
        """Of them, those answered with 304."""
        self.first: float | None = None

    def hit(self) -> None:
        self.hits += 1
        if self.first is None:
            self.first = time.monotonic()

    def respond(self, *, forget: bool) -> bytes:
        body = json.dumps({"hits": self.hits, "unchanged": self.unchanged, "first": self.first}).encode()
        if forget:
            self.hits, self.unchanged, self.first = 0, 0, None
        return _response(body, "application/json")


class _Connection(asyncio.Protocol):
    """One connection, kept alive; GET only."""

    def __init__(
        self,
        respond: Callable[[str], bytes],
        counter: _Counter,
        latency: float,
        *,
        versions: bool,
        sets_cookie: bool,
    ) -> None:
        self._respond = respond
        self._versions = versions
        self._counter = counter
        self._latency = latency
        self._sets_cookie = sets_cookie
        self._transport: asyncio.Transport | None = None
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            head, self._unread = self._unread[:end], self._unread[end + 4 :]
            self._serve(head.split(b" ", 2)[1].decode("latin-1"), head)

    def _serve(self, target: str, head: bytes) -> None:
        assert self._transport is not None
        path, _, query = target.partition("?")
        if path == "/.bench":
            self._transport.write(self._counter.respond(forget=query == "forget"))
            return
        etag = b'"%d"' % len(path)
        if self._versions and b"\nif-none-match: " + etag in head.lower():
            self._counter.unchanged += 1
            response = b"HTTP/1.1 304 Not Modified\r\nETag: " + etag + b"\r\n\r\n"
        else:
            response = self._respond(path)
            if self._versions:
                response = response.replace(b"\r\n", b"\r\nETag: " + etag + b"\r\n", 1)
        self._counter.hit()
        if self._sets_cookie:
            cookie = f"Set-Cookie: sid={self._counter.hits:016x}{'x' * 16}; Path=/; HttpOnly\r\n"
            status, end, rest = response.partition(b"\r\n")
            response = status + end + cookie.encode() + rest
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._write, response)
        else:
            self._transport.write(response)

    def _write(self, response: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(response)


def _response(body: bytes, kind: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def of_folder(root: Path) -> Callable[[str], bytes]:
    """Responds with files of a folder."""
    top = root.resolve()

    def respond(path: str) -> bytes:
        file = (top / unquote(path).lstrip("/")).resolve()
        if not file.is_relative_to(top) or not file.is_file():
            return _NOT_FOUND
        return _response(file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream")

    return respond


def of_pages(count: int, size: int) -> Callable[[str], bytes]:
    """Responds with generated pages."""

    @lru_cache(maxsize=256)
    def respond(path: str) -> bytes:
        number = number_of(path)
        if number is None or number >= count:
            return _NOT_FOUND
        return _response(page(number, count, size), "text/html; charset=utf-8")

    return respond


def of_small_pages(count: int) -> Callable[[str], bytes]:
    """Responds with generated pages of 3 kB."""

    def respond(path: str) -> bytes:
        number = number_of(path)
        if number is None or number >= count:
            return _NOT_FOUND
        return _response(small_page(number, count), "text/html; charset=utf-8")

    return respond


def of_scripted_pages(every: int) -> Callable[[str], bytes]:
    """Responds with pages of which each `every`-th has its rows by a script."""

    def respond(path: str) -> bytes:
        folder, _, name = path[1:].partition("/")
        if path == "/site.js":
            return _response(SCRIPT.encode(), "text/javascript")
        if path == "/site.css":
            return _response(STYLE.encode(), "text/css")
        if not name.isdecimal():
            return _NOT_FOUND
        if folder == "api":
            return _response(json.dumps(items(int(name))).encode(), "application/json")
        return _response(scripted_page(int(name), by_script=int(name) % every == 0), "text/html; charset=utf-8")

    return respond


async def serve(
    respond: Callable[[str], bytes],
    addresses: list[tuple[str, int]],
    latency: float,
    *,
    versions: bool,
    sets_cookie: bool,
) -> None:
    """Serve until stdin ends; print the addresses as JSON once it listens."""
    loop, counter = asyncio.get_running_loop(), _Counter()
    servers = []
    for host, port in addresses:
        server = await loop.create_server(
            lambda: _Connection(respond, counter, latency, versions=versions, sets_cookie=sets_cookie),
            host,
            port,
            backlog=512,
        )
        servers.append(server)
    print(json.dumps([server.sockets[0].getsockname()[:2] for server in servers]), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve a folder or generated pages on loopback until stdin ends.")
    parser.add_argument("--root", type=Path, help="a folder; else pages are generated")
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=28_000, metavar="BYTES")
    parser.add_argument("--small", action="store_true", help="pages of 3 kB, which cost the server little")
    parser.add_argument("--scripted", type=int, metavar="N", help="pages of which each N-th has its rows by a script")
    parser.add_argument("--latency", type=float, default=0.0, metavar="MS")
    parser.add_argument("--versions", action="store_true", help="give each page an ETag; answer 304 to who names it")
    parser.add_argument("--cookie", action="store_true", help="set a new cookie with each answer")
    parser.add_argument("--listen", action="append", required=True, metavar="HOST:PORT", help="may be repeated")
    options = parser.parse_args()
    if options.root:
        respond = of_folder(options.root)
    elif options.scripted:
        respond = of_scripted_pages(options.scripted)
    else:
        respond = of_small_pages(options.pages) if options.small else of_pages(options.pages, options.size)
    addresses = [(text.rpartition(":")[0], int(text.rpartition(":")[2])) for text in options.listen]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            serve(respond, addresses, options.latency / 1000, versions=options.versions, sets_cookie=options.cookie)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
