"""A programmable web site on loopback: delays, statuses by attempt, dropped connections; with TLS and HTTP/2 too."""

import asyncio
import contextlib
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

from .http2_connection import Http2Connection, Http2Stream

Drop = Literal["", "unanswered", "halfway"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. `attempt` counts the requests for this path, from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class Page:
    """A response. `hold` delays it until the event is set."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hold: threading.Event | None = None
    drop: Drop = ""

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


Program = Page | Callable[[Request], Page]


@dataclass(slots=True)
class Exchange:
    """A logged request; times are monotonic seconds."""

    request: Request
    started: float
    ended: float | None = None

    @property
    def path(self) -> str:
        return self.request.path


def html(body: str, *, title: str = "page") -> str:
    return f"<!doctype html><title>{title}</title><body>{body}"


def redirect(to: str, status: int = 302) -> Page:
    return Page(status=status, headers={"Location": to})


class Site:
    """Responds from `pages`, else from `fallback`, else with 404. Both may be changed at any time."""

    def __init__(self, hosts: Sequence[str] = ("127.0.0.1",)) -> None:
        """`hosts`: the addresses where it listens."""
        self.hosts = hosts
        self.pages: dict[str, Program] = {}
        self.fallback: Callable[[Request], Page] | None = None
        self.exchanges: list[Exchange] = []
        self.max_concurrent = 0
        self.errors: list[Exception] = []
        self.port = 0
        self.scheme = "http"
        self.connections = 0
        self.http2_requests = 0
        self._counts: Counter[str] = Counter()
        self._running = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="site")

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.hosts[0]}:{self.port}{path}"

    def __setitem__(self, path: str, program: Program | str | bytes) -> None:
        self.pages[path] = Page(program) if isinstance(program, str | bytes) else program

    @property
    def paths(self) -> list[str]:
        """Requested paths in order, without robots.txt."""
        return [exchange.path for exchange in list(self.exchanges) if exchange.path != "/robots.txt"]

    def count(self, path: str) -> int:
        return sum(exchange.path == path for exchange in list(self.exchanges))

    def start_times(self, *paths: str) -> list[float]:
        """Sorted start times of the requests for these paths, or for all but robots.txt."""
        return sorted(
            v.started for v in list(self.exchanges) if (v.path in paths if paths else v.path != "/robots.txt")
        )

    def clear_log(self) -> None:
        """Clear the log and the counts of attempts."""
        self.exchanges, self.max_concurrent = [], 0
        self._counts.clear()

    def open(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._thread.start()
        self.scheme = "http" if tls is None else "https"
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, self.hosts, port, limit=2**20, backlog=512, ssl=tls), self._loop
        ).result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        def end() -> None:
            self._server.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.02, self._loop.stop)

        self._loop.call_soon_threadsafe(end)
        self._thread.join(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        tls = writer.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            await Http2Connection(reader, writer, self._respond_by_http2).serve()
            return
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await self._next(reader)) is not None and await self._respond(request, writer):
                pass
        writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> Request | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError:
            return None
        method, path, _ = head[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self._counts[path] += 1
        return Request(method=method, path=path, headers=headers, body=body, attempt=self._counts[path])

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether to keep the connection."""
        exchange = Exchange(request, time.monotonic())
        self.exchanges.append(exchange)
        self._running += 1
        self.max_concurrent = max(self.max_concurrent, self._running)
        try:
            page = self._page(request)
            if page.delay:
                await asyncio.sleep(page.delay)
            while page.hold is not None and not page.hold.is_set():
                await asyncio.sleep(0.01)
            if page.drop == "unanswered":
                return False
            return await _send(page, request, writer)
        finally:
            self._running -= 1
            exchange.ended = time.monotonic()

    async def _respond_by_http2(self, stream: Http2Stream) -> None:
        self.http2_requests += 1
        self._counts[stream.path] += 1
        request = Request(
            method=stream.method, path=stream.path, headers=stream.headers, body=stream.body,
            attempt=self._counts[stream.path],
        )  # fmt: skip
        exchange = Exchange(request, time.monotonic())
        self.exchanges.append(exchange)
        page = self._page(request)
        await asyncio.sleep(page.delay)
        headers = {"content-type": "text/html; charset=utf-8", "content-length": str(len(page.content))}
        headers |= {name.lower(): value for name, value in page.headers.items()}
        await stream.send_head([(":status", str(page.status)), *headers.items()])
        await stream.send_data(page.content, end=True)
        exchange.ended = time.monotonic()

    def _page(self, request: Request) -> Page:
        program = self.pages.get(request.path)
        if program is None:
            program = self.fallback
        if program is None:
            return Page("nothing here", 404)
        try:
            return program(request) if callable(program) else program
        except Exception as error:
            self.errors.append(error)
            return Page("error in the test", 500)


async def _send(page: Page, request: Request, writer: asyncio.StreamWriter) -> bool:
    content = page.content
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(content)), **page.headers}
    lines = [f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    if page.drop == "halfway":
        writer.write(content[: len(content) // 2])
        await writer.drain()
        return False
    if request.method != "HEAD":
        writer.write(content)
    await writer.drain()
    return True


@contextlib.contextmanager
def serve_site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()
    site.open(tls=tls)
    try:
        yield site
    finally:
        site.close()
    assert not site.errors
