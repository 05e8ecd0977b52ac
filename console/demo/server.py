"""Serves the demo shop on loopback from a child process that ends with its parent.

The parent opens the socket: the address is known, and connections queue, before the child is up.
"""

import argparse
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

from console.demo.site import Reply, Shop

_BACKLOG = 1024
_EXIT_TIMEOUT = 2.0
"""Seconds the child has to exit after its stdin is closed."""
_NEVER_FAILING = ("/robots.txt", "/sitemap.xml")


@contextlib.contextmanager
def serve_shop(*, pages: int, latency: float = 0.0, errors: float = 0.0) -> Iterator[str]:
    """Serve a shop of `pages` products in a child process; yields its address, such as `http://127.0.0.1:8080`.

    `latency`: seconds per response. `errors`: the share (0..1) of pages whose first response is 503.
    Raises OSError where the socket or the process cannot be created. The child ends when this process ends.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options = {"--socket": listener.fileno(), "--pages": pages, "--latency": latency, "--errors": errors}
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *(str(part) for pair in options.items() for part in pair)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C must not end it before the crawl: running jobs still fetch
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


class ShopServer(ThreadingHTTPServer):
    """Serves the shop on an open socket. With `errors`, the same requests fail in every process, each once."""

    def __init__(self, listener: socket.socket, shop: Shop, *, latency: float, errors: float) -> None:
        super().__init__(listener.getsockname(), ShopRequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.shop = shop
        self.latency = latency
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


class ShopRequestHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD from the shop, other methods with 405."""

    server: ShopServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "shop", ""
    disable_nagle_algorithm = True
    wbufsize = -1  # one write per response

    def do_GET(self) -> None:
        """Answer with head and body."""
        if self.server.latency:
            time.sleep(self.server.latency)
        if self.server.should_fail(self.path):
            self._send(Reply(503, b"", "text/plain"), "Retry-After", "0")
        else:
            self._send(self.server.shop.reply(self.path))

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


def main() -> None:
    """Serve on the socket of `--socket` until stdin is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--errors", type=float, default=0.0)
    options = parser.parse_args()
    listener = socket.socket(fileno=options.socket)
    origin = "http://{}:{}".format(*listener.getsockname())
    server = ShopServer(listener, Shop(options.pages, origin), latency=options.latency, errors=options.errors)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()  # nothing is ever written: it returns when the parent is gone


if __name__ == "__main__":
    main()
