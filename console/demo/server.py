"""The demo shop as a process of its own: HTTP/1.1 on loopback, ended by its lifeline. Knows pages only as replies.

The parent opens the socket, so that the address is known, and connections wait, before the process is up.
"""

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from zlib import crc32

from console.demo.site import Reply, Shop

_BACKLOG = 1024
_MAX_HEAD_BYTES = 64 * 1024
_EXIT_TIMEOUT = 2.0
"""Seconds the process is given to end by itself."""
_NEVER_FAILING = ("/robots.txt", "/sitemap.xml")


@contextlib.contextmanager
def serve_shop(*, pages: int, latency: float = 0.0, errors: float = 0.0) -> Iterator[str]:
    """Serve a shop of `pages` products in a child process; yields its address, such as `http://127.0.0.1:8080`.

    `latency`: seconds each answer takes. `errors`: the share (0..1) of pages that answer 503 when first asked for.
    Raises OSError where no socket or process can be had. The child ends with this process, in whatever way that ends.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        told = {"--socket": listener.fileno(), "--pages": pages, "--latency": latency, "--errors": errors}
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *(str(part) for pair in told.items() for part in pair)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # ^C is the crawl's to handle: what is under way may still be fetched
        )
    try:
        yield address
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """Answers requests, and is too busy for some when they come for the first time: for the same ones every time."""

    def __init__(self, shop: Shop, errors: float) -> None:
        self._shop = shop
        self._errors = errors
        self._failed_once: set[str] = set()

    def respond(self, method: str, target: str) -> bytes:
        """The whole answer, head and body."""
        if method not in ("GET", "HEAD"):
            return _encode_response(Reply(405, b"", "text/plain"), "Allow: GET, HEAD\r\n")
        if self._errors and self._should_fail(target):
            return _encode_response(Reply(503, b"", "text/plain"), "Retry-After: 0\r\n")
        whole = _encode_response(self._shop.reply(target))
        return whole if method == "GET" else whole[: whole.index(b"\r\n\r\n") + 4]

    def _should_fail(self, target: str) -> bool:
        if target in self._failed_once or target in _NEVER_FAILING or crc32(target.encode()) / 2**32 >= self._errors:
            return False
        self._failed_once.add(target)
        return True


class Connection(asyncio.Protocol):
    """One connection: its requests are answered one after the other."""

    def __init__(self, keeper: Server, latency: float) -> None:
        self._server = keeper
        self._latency = latency
        self._buffer = b""
        self._delayed = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where answers go."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol's own signature
        """Answer no more."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is whole."""
        self._buffer += data
        if len(self._buffer) > _MAX_HEAD_BYTES and self._transport is not None:
            self._transport.close()
        elif not self._delayed:
            self._process_buffer()

    def _process_buffer(self) -> None:
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            if self._latency:
                self._delayed = True
                asyncio.get_running_loop().call_later(self._latency, self._respond_delayed, head)
                return
            self._respond(head)

    def _respond_delayed(self, head: bytes) -> None:
        self._delayed = False
        self._respond(head)
        self._process_buffer()

    def _respond(self, head: bytes) -> None:
        if self._transport is None:
            return
        method, _, rest = head.decode("latin-1").partition(" ")
        target, _, rest = rest.partition(" ")
        self._transport.write(self._server.respond(method, target))
        # A body would be taken for the next request: none is expected here, so its sender has to call again.
        if method not in ("GET", "HEAD") or "connection: close" in rest.lower():
            self._transport.close()


def _encode_response(reply: Reply, more: str = "") -> bytes:
    if reply.location is not None:
        more += f"Location: {reply.location}\r\n"
    head = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\nContent-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\n{more}\r\n"
    )
    return head.encode() + reply.body


async def _serve(listener: socket.socket, keeper: Server, latency: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    # Nothing is ever written to the lifeline: it becomes readable when the parent is gone.
    loop.add_reader(sys.stdin.fileno(), over.set)
    await loop.create_server(lambda: Connection(keeper, latency), sock=listener)
    await over.wait()


def main() -> None:
    """Serve on the socket that is named, until the pipe at stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--errors", type=float, default=0.0)
    told = parser.parse_args()
    listener = socket.socket(fileno=told.socket)
    origin = "http://{}:{}".format(*listener.getsockname())
    asyncio.run(_serve(listener, Server(Shop(told.pages, origin), told.errors), told.latency))


if __name__ == "__main__":
    main()
