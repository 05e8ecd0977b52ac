"""A raw HTTP server on loopback: each path is a function that writes the response."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from crawl_engine.http.client import Fetcher
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import Request


class LoopbackFetcher(Fetcher):
    """Sends to servers of the tests, which the address guard would refuse."""

    async def send(self, url: str, request: Request, **options: Any) -> FetchResponse:
        return await super().send(url, request, **{"exempt": True, **options})


@dataclass
class Exchange:
    """One received request, and the socket for the response."""

    method: str
    path: str
    headers: dict[str, str]
    head: bytes
    """The request line and the headers, byte for byte."""
    body: bytes
    connection: socket.socket
    nth: int = 1
    """Of the requests of its connection."""

    def respond(self, body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
        self.connection.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)

    def raw(self, data: bytes) -> None:
        self.connection.sendall(data)

    def end(self) -> None:
        """Close the connection in order: by TLS it says so."""
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.settimeout(0.5)
            with suppress(OSError, ValueError):
                self.connection.unwrap()
        self.connection.close()

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


Page = Callable[[Exchange], None]


@dataclass
class Site:
    port: int
    scheme: str = "http"
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0
    served: int = 0
    """Requests whose page has returned."""
    stopping: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def page(self, path: str) -> Callable[[Page], Page]:
        def add(page: Page) -> Page:
            self.pages[path] = page
            return page

        return add


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0))
    site = Site(listener.getsockname()[1], scheme="http" if tls is None else "https")

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            site.connections += 1
            threading.Thread(target=_serve, args=(site, connection, tls), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield site
    finally:
        site.stopping.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(site: Site, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    buffer, nth = b"", 0
    try:
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        while True:
            while b"\r\n\r\n" not in buffer:
                chunk = connection.recv(65536)
                if not chunk:
                    return
                buffer += chunk
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", 0))
            while len(buffer) < length:
                buffer += connection.recv(65536)
            body, buffer = buffer[:length], buffer[length:]
            nth += 1
            path = path[len(site.url("")) :] if path.startswith("http") else path  # a proxy gets the whole URL
            exchange = Exchange(method, path, headers, head, body, connection, nth)
            site.requests.append(exchange)
            try:
                site.pages[path.partition("?")[0]](exchange)
            finally:
                site.served += 1
    except (OSError, ValueError):  # a closed socket has no number
        return
    finally:
        connection.close()
