"""Serves hostile answers from raw sockets on loopback, in a thread of its own."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.hostile.answer import Connection, HostileAnswer, MakeBody, make_body
from tests.hostile.transports import HostileTransport

_PLAIN = HostileTransport("plain", None, "")


class HostileServer:
    """Answers `/NAME`, and what is below it, by the answer of that name; `robots` also as robots.txt; others empty."""

    def __init__(self, answers: Mapping[str, HostileAnswer], transport: HostileTransport = _PLAIN) -> None:
        self.transport = transport
        self._answers = answers
        self.robots: HostileAnswer | None = None
        self.asked: dict[str, float] = {}
        """Wall-clock second of the first request for a path."""
        self.requests = 0
        self._bodies: dict[MakeBody, bytes] = {}
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="hostile")

    @property
    def address(self) -> str:
        scheme = "http" if self.transport.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    def prepare(self, answers: Sequence[HostileAnswer]) -> None:
        """Make the bodies of these answers, and forget those of others."""
        self._bodies.clear()
        self._bodies.update({answer.body: make_body(answer.body) for answer in answers if answer.body is not None})

    def open(self) -> None:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20, backlog=512, ssl=self.transport.tls),
            self._loop,
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
        # a hostile answer may not care what the crawl does with its connection
        with contextlib.suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError, ValueError
        ):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("latin-1")
            self.requests += 1
            self.asked.setdefault(path, time.time())
            await self._answer(Connection(path, writer, self._bodies))
        with contextlib.suppress(OSError):
            writer.close()

    async def _answer(self, connection: Connection) -> None:
        if connection.path == "/robots.txt":
            answer = self.robots
        else:
            answer = self._answers.get(connection.path.split("?")[0].split("/")[1])
        if answer is None:  # a page, so that `maxPages` counts it
            is_robots = connection.path == "/robots.txt"
            await connection.respond(b"<p>nothing here</p>", status="404 Not Found" if is_robots else "200 OK")
        else:
            await answer.send(connection)


@contextlib.contextmanager
def serve_hostile(
    answers: Mapping[str, HostileAnswer], transport: HostileTransport = _PLAIN
) -> Iterator[HostileServer]:
    server = HostileServer(answers, transport)
    server.open()
    try:
        yield server
    finally:
        server.close()
