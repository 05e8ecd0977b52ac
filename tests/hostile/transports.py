"""The ways in which hostile answers reach a crawl: plain, over TLS, through a proxy or a tunnel, and by HTTP/2."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.answer import Connection, MakeBody
from tests.process.certificates import Authority
from tests.process.http2_connection import Http2Stream
from tests.process.proxy import serve_proxy

NAMES = ("plain", "tls", "proxy", "tunnel", "http2")
_MAX_HEAD = 200_000
_OF_THE_CONNECTION = (b"connection", b"keep-alive", b"transfer-encoding")


@dataclass(frozen=True, slots=True)
class HostileTransport:
    """What the server speaks, and the keys of its host that lead a crawl there."""

    name: str
    tls: ssl.SSLContext | None
    host_keys: str


@contextmanager
def open_transport(name: str, folder: Path) -> Iterator[HostileTransport]:
    """Certificates are written into the folder; a proxy serves meanwhile."""
    with ExitStack() as stack:
        context, keys = None, ""
        if name in ("tls", "tunnel", "http2"):
            authority = Authority(folder)
            context = authority.server_context(http2=name == "http2")
            keys += f", tls: {{ca: '{authority.path}'}}"
        if name in ("proxy", "tunnel"):
            proxy = stack.enter_context(serve_proxy("us:er"))
            keys += f", proxy: 'http://us:er@127.0.0.1:{proxy.port}'"
        if name == "http2":
            keys += ", http2: true"
        yield HostileTransport(name, context, keys)


class Http2Translator(Connection):
    """Sends what is written for HTTP/1.1 by HTTP/2: heads as HEADERS, bodies as DATA, and what is neither raw."""

    def __init__(self, stream: Http2Stream, bodies: dict[MakeBody, bytes]) -> None:
        super().__init__(stream.path, stream.connection.writer, bodies)
        self._stream = stream
        self._head: bytes | None = b""
        """What was sent of a head; None: it is complete."""

    async def send(self, data: bytes) -> None:
        """Bytes of HTTP/1.1. Raises OSError when the crawl has closed the connection."""
        while self._head is not None and data:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                if len(self._head) > _MAX_HEAD:
                    await self._stream.connection.send_raw(self._head)
                    self._head = b""
                return
            self._head = b""
            status, headers = _read_head(head)
            if status is None:
                await self._stream.connection.send_raw(head + end)
                continue
            await self._stream.send_head([(":status", status), *headers])
            if not status.startswith("1"):
                self._head = None
        if data:
            await self._stream.send_data(data)

    async def end(self) -> None:
        """Note that the answer is complete."""
        if self._head is None:
            await self._stream.send_data(b"", end=True)


def _read_head(head: bytes) -> tuple[str | None, list[tuple[str, str]]]:
    first, *lines = head.split(b"\r\n")
    parts = first.split(b" ")
    if not first.startswith(b"HTTP/") or len(parts) < 2:
        return None, []
    pairs = [line.partition(b":") for line in lines]
    headers = [
        (name.lower().decode("latin-1"), value.strip().decode("latin-1"))
        for name, _, value in pairs
        if name.lower() not in _OF_THE_CONNECTION
    ]
    return parts[1].decode("latin-1"), headers
