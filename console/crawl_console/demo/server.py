"""Serves the demo shop and the town on loopback, from a child that ends with its parent.

The parent opens the sockets: the addresses are known, and connections queue, before the child is up.
"""

import argparse
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from zlib import crc32

from crawl_console.demo.front import Front
from crawl_console.demo.site import Reply, Shop
from crawl_console.demo.town import ARCHIVE_SECONDS, ARCHIVE_SLOTS, Archive, Warehouse, town_size

_BACKLOG = 1024
_EXIT_TIMEOUT = 2.0
"""Seconds the child has to exit after its stdin is closed."""
_NEVER_FAILING = ("/robots.txt", "/sitemap.xml")


@contextlib.contextmanager
def serve_shop(*, pages: int, latency: float = 0.0, errors: float = 0.0, port: int = 0) -> Iterator[str]:
    """Serve a shop of `pages` products in a child process; yields its address, such as `http://127.0.0.1:8080`.

    `latency`: seconds per response. `errors`: the share (0..1) of pages whose first response is 503. `port`: 0 picks a
    free one. Raises OSError if the socket or the process cannot be created. The child ends when this process ends.
    """
    with _serve([port], pages, latency, errors) as (address,):
        yield address


@contextlib.contextmanager
def serve_town(*, pages: int, latency: float = 0.0, errors: float = 0.0) -> Iterator[tuple[str, str, str, str]]:
    """Serve the shop with a slow archive, a warehouse where some pages always fail, and a shop front; yields addresses.

    In this order.
    """
    with _serve([0, 0, 0, 0], pages, latency, errors) as (shop, archive, warehouse, front):
        yield shop, archive, warehouse, front


@contextlib.contextmanager
def _serve(ports: Sequence[int], pages: int, latency: float, errors: float) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)) for port in ports]
        addresses = [_origin(listener) for listener in listeners]
        sockets = [part for listener in listeners for part in ("--socket", listener.fileno())]
        options = ["--pages", pages, "--latency", latency, "--errors", errors]
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, (*sockets, *options))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno() for listener in listeners],
            start_new_session=True,  # Ctrl-C must not end it before the crawl: running jobs still fetch
        )
    try:
        yield addresses
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Site(Protocol):
    def reply(self, target: str) -> Reply:
        """The response to a GET of a percent-encoded path."""
        ...


class SiteServer(ThreadingHTTPServer):
    """Serves a site on an open socket. With `errors`, the same requests fail in every process, each once."""

    def __init__(
        self,
        listener: socket.socket,
        site: Site,
        *,
        latency: float = 0.0,
        errors: float = 0.0,
        slots: int | None = None,
    ) -> None:
        """`slots`: responses that are made at a time; None: any number."""
        super().__init__(listener.getsockname(), SiteRequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.site = site
        self.latency = latency
        self.slots: contextlib.AbstractContextManager[Any] = (
            threading.Semaphore(slots) if slots is not None else contextlib.nullcontext()
        )
        self._errors = errors
        self._failed_once: set[str] = set()
        self._lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a traceback, except for a client that disconnects: a stopped crawl does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def should_fail(self, target: str) -> bool:
        """Whether this request gets a 503."""
        if target in _NEVER_FAILING or crc32(target.encode("utf-8", "replace")) / 2**32 >= self._errors:
            return False
        with self._lock:
            first = target not in self._failed_once
            self._failed_once.add(target)
        return first


class SiteRequestHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD from the site, other methods with 405."""

    server: SiteServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "shop", ""
    disable_nagle_algorithm = True
    wbufsize = -1  # one write per response

    def do_GET(self) -> None:
        if self.server.latency:
            with self.server.slots:
                time.sleep(self.server.latency)
        if self.server.should_fail(self.path):
            self._send(Reply(503, b"", "text/plain"), "Retry-After", "0")
        else:
            self._send(self.server.site.reply(self.path))

    do_HEAD = do_GET  # noqa: N815

    def _refuse(self) -> None:
        self.close_connection = True  # the body of the request, if any, is not read
        self._send(Reply(405, b"", "text/plain"), "Allow", "GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse  # noqa: N815

    def _send(self, reply: Reply, name: str = "", value: str = "") -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.location is not None:
            self.send_header("Location", reply.location)
        if name:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: stderr belongs to the crawl."""


def _origin(listener: socket.socket) -> str:
    return "http://{}:{}".format(*listener.getsockname())


def main() -> None:
    """Serve on the socket of `--socket` until stdin is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, action="append", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--errors", type=float, default=0.0)
    options = parser.parse_args()
    listener, *others = (socket.socket(fileno=number) for number in options.socket)
    count = town_size(options.pages)
    shop = Shop(options.pages, _origin(listener))
    servers = [SiteServer(listener, shop, latency=options.latency, errors=options.errors)]
    if others:
        servers.append(SiteServer(others[0], Archive(count), latency=ARCHIVE_SECONDS, slots=ARCHIVE_SLOTS))
        servers.append(SiteServer(others[1], Warehouse(count), latency=options.latency))
        servers.append(SiteServer(others[2], Front()))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()  # nothing is ever written: it returns when the parent is gone


if __name__ == "__main__":
    main()
