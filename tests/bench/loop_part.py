"""One of the two processes of the ceiling: fetch, decode, parse, extract; sends the rest to the other.

It uses the engine's code, except for what makes a crawl durable: no queue, no database, no stored documents.
"""

import argparse
import asyncio
import json
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import orjson
import uvloop

from engine import urls
from engine.extract.page.context import Context
from engine.extract.page.page import Page
from engine.extract.records import RecordExtractor
from engine.http.client import Fetcher
from engine.http.decode import decode
from engine.http.errors import FetchFailed
from engine.model.definition import Definitions
from engine.model.job import Request
from engine.node.tuning import CpuPinner
from engine.settings import Settings

_BATCH = 64
_FLUSH_SECONDS = 0.005
_PIN_SECONDS = 0.25
"""As often as the heartbeat thread of a node adjusts its CPU."""


class Neighbour:
    """The other process: sends it batches of URLs, and detects that both are out of work."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = stream
        self._waiting: list[str] = []
        self._writer: asyncio.StreamWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.sent = 0
        self.received = 0
        self._idle_at: tuple[int, int] | None = None
        """URLs the other had sent and received when it last ran out of work."""

    async def listen(self, part: "Part") -> None:
        """Receive URLs until both are out of work."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=2**24)
        part.check_done()
        while line := await reader.readline():
            message = orjson.loads(line)
            if isinstance(message, list):
                self.received += len(message)
                part.take(message)
            else:
                self._idle_at = message["sent"], message["received"]
            part.check_done()
            if part.done:
                break
        self._writer.close()

    def send(self, url: str) -> None:
        """Queue a URL for the other process."""
        self._waiting.append(url)
        if len(self._waiting) >= _BATCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Send the queued URLs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._writer is not None:
            self.sent += len(self._waiting)
            self._write(self._waiting)
            self._waiting = []

    def report_idle(self) -> None:
        """Report that this part has no work."""
        self.flush()
        self._write({"sent": self.sent, "received": self.received})

    @property
    def idle(self) -> bool:
        """Whether the other is out of work and no URL is in transit."""
        return self._idle_at == (self.received, self.sent)

    def _write(self, message: Any) -> None:
        if self._writer is not None:
            self._writer.write(orjson.dumps(message) + b"\n")


class Part:
    """The half of the crawl that this process owns."""

    def __init__(self, number: int, definitions: Definitions, settings: Settings, neighbour: Neighbour) -> None:
        self._number = number
        self._neighbour = neighbour
        self._slots = settings.concurrency
        self._fetcher = Fetcher(
            user_agent=settings.user_agent,
            deadline=settings.deadline,
            max_body=settings.max_body,
            connections=settings.concurrency,
        )
        self._group = definitions.locator_groups[0].name
        group = definitions.task_group(self._group)
        assert group is not None
        data_defs = [definitions.data_def(task.data_def) for task in group.tasks]
        self._extractors = [RecordExtractor(data_def) for data_def in data_defs if data_def is not None]
        self._starts = [url for locator in definitions.locator_groups[0].locators for url in locator.urls]
        self._seen: set[str] = set()
        self._queue: deque[str] = deque()
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: tuple[int, int] | None = None
        self.pages = 0
        self.failed = 0
        self.rows: list[Mapping[str, Any]] = []
        self.done = False

    async def crawl(self) -> None:
        """Crawl until both parts are out of work."""
        self.follow(url for url in map(urls.normalize, self._starts) if url and self._owns(url))
        await self._neighbour.listen(self)
        await self._fetcher.aclose()

    def follow(self, links: Iterable[str]) -> None:
        """Crawl new URLs, or send them to the part that owns them."""
        for url in links:
            if url in self._seen:
                continue
            self._seen.add(url)
            if self._owns(url):
                self._queue.append(url)
            else:
                self._neighbour.send(url)
        self._start()

    def take(self, received: Iterable[str]) -> None:
        """Crawl URLs received from the other part."""
        for url in received:
            if url not in self._seen:
                self._seen.add(url)
                self._queue.append(url)
        self._start()

    def check_done(self) -> None:
        """Report when this part is out of work; set `done` when both are."""
        if self._running or self._queue:
            return
        self._neighbour.flush()
        counts = (self._neighbour.sent, self._neighbour.received)
        if counts != self._reported:
            self._reported = counts
            self._neighbour.report_idle()
        self.done = self._neighbour.idle

    def _owns(self, url: str) -> bool:
        return crc32(url.encode()) & 1 == self._number

    def _start(self) -> None:
        while self._queue and self._running < self._slots:
            self._running += 1
            task = asyncio.get_running_loop().create_task(self._slot(self._queue.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _slot(self, url: str) -> None:
        request = Request()
        await self._work(url, request)
        while self._queue:
            await self._work(self._queue.popleft(), request)
        self._running -= 1
        self.check_done()

    async def _work(self, url: str, request: Request) -> None:
        try:
            response = await self._fetcher.send(url, request, exempt=True)
        except FetchFailed:
            self.failed += 1
            return
        if response.status != 200:
            return
        document = decode(response.body, response.content_type)
        if document.kind == "binary":
            return
        page = Page(url=url, text=document.text, kind=document.kind, status=response.status, fetched_at=time.time())
        context = Context(group=self._group, locator="", locator_url="", depth=0, run="", run_time="")
        self.pages += 1
        for extractor in self._extractors:
            extraction = extractor.extract(page, context)
            self.rows += extraction.rows
            self.follow(link.url for link in extraction.links)


def _keep_on_one_cpu() -> None:
    """Pin the threads of this process together, as a node does."""
    pinner = CpuPinner(threading.main_thread())

    def adjust() -> None:
        while True:
            pinner.adjust()
            time.sleep(_PIN_SECONDS)

    threading.Thread(target=adjust, daemon=True, name="pin").start()


def main() -> int:
    parser = argparse.ArgumentParser(description="One half of the ceiling; started by tests.bench.loop.")
    parser.add_argument("--part", type=int, required=True)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--profile", metavar="FILE")
    options = parser.parse_args()
    setup = json.loads(sys.stdin.readline())
    stream = socket.socket(fileno=options.socket)
    stream.setblocking(False)

    _keep_on_one_cpu()

    async def crawl() -> Part:
        part = Part(
            options.part,
            Definitions.from_json(setup["definitions"]),
            Settings.from_json(setup["settings"]),
            Neighbour(stream),
        )
        await part.crawl()
        return part

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if options.profile:
            import cProfile

            with cProfile.Profile() as profile:
                part = runner.run(crawl())
            profile.dump_stats(options.profile)
        else:
            part = runner.run(crawl())
    print(json.dumps({"pages": part.pages, "rows": len(part.rows), "failed": part.failed}))
    return 0
