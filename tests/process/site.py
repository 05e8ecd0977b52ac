"""A web site on loopback whose every page is programmed: delays, statuses by attempt, drops. It logs requests."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came. `attempt` counts, from 1, the requests for this path."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class Page:
    """One answer. `hold` keeps it back until the event is set."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hold: threading.Event | None = None
    drop: Literal["", "unanswered", "halfway"] = ""

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


Program = Page | Callable[[Asked], Page]


@dataclass(slots=True)
class Visit:
    """A request in the log; monotonic seconds."""

    asked: Asked
    begun: float
    ended: float | None = None

    @property
    def path(self) -> str:
        return self.asked.path


def html(body: str, *, title: str = "page") -> str:
    return f"<!doctype html><title>{title}</title><body>{body}"


def moved(to: str, status: int = 302) -> Page:
    return Page(status=status, headers={"Location": to})


class Site:
    """Answers from `pages`, else from `otherwise`, else 404. Both may be changed at any time."""

    def __init__(self) -> None:
        self.pages: dict[str, Program] = {}
        self.otherwise: Callable[[Asked], Page] | None = None
        self.visits: list[Visit] = []
        self.most_at_once = 0
        self.faults: list[Exception] = []
        self.port = 0
        self._counts: Counter[str] = Counter()
        self._running = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="site")

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def __setitem__(self, path: str, program: Program | str | bytes) -> None:
        self.pages[path] = Page(program) if isinstance(program, str | bytes) else program

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order, without robots.txt."""
        return [visit.path for visit in list(self.visits) if visit.path != "/robots.txt"]

    def times(self, path: str) -> int:
        return sum(visit.path == path for visit in list(self.visits))

    def begun(self, *paths: str) -> list[float]:
        """When requests came, in order; of these paths, or of all but robots.txt."""
        return sorted(v.begun for v in list(self.visits) if (v.path in paths if paths else v.path != "/robots.txt"))

    def forget(self) -> None:
        """Start the log and the counts of attempts anew."""
        self.visits, self.most_at_once = [], 0
        self._counts.clear()

    def open(self, port: int = 0) -> None:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", port, limit=2**20, backlog=512), self._loop
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
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (asked := await self._next(reader)) is not None and await self._answer(asked, writer):
                pass
        writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> Asked | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError:
            return None
        method, path, _ = head[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self._counts[path] += 1
        return Asked(method=method, path=path, headers=headers, body=body, attempt=self._counts[path])

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        visit = Visit(asked, time.monotonic())
        self.visits.append(visit)
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        try:
            page = self._page(asked)
            if page.delay:
                await asyncio.sleep(page.delay)
            while page.hold is not None and not page.hold.is_set():
                await asyncio.sleep(0.01)
            if page.drop == "unanswered":
                return False
            return await _send(page, asked, writer)
        finally:
            self._running -= 1
            visit.ended = time.monotonic()

    def _page(self, asked: Asked) -> Page:
        program = self.pages.get(asked.path)
        if program is None:
            program = self.otherwise
        if program is None:
            return Page("nothing here", 404)
        try:
            return program(asked) if callable(program) else program
        except Exception as fault:
            self.faults.append(fault)
            return Page("the test's own fault", 500)


async def _send(page: Page, asked: Asked, writer: asyncio.StreamWriter) -> bool:
    content = page.content
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(content)), **page.headers}
    lines = [f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    if page.drop == "halfway":
        writer.write(content[: len(content) // 2])
        await writer.drain()
        return False
    if asked.method != "HEAD":
        writer.write(content)
    await writer.drain()
    return True


@contextlib.contextmanager
def serving() -> Iterator[Site]:
    site = Site()
    site.open()
    try:
        yield site
    finally:
        site.close()
    assert not site.faults
