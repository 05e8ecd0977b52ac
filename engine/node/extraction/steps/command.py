"""The programs of `command` steps: kept warm, one JSON line in and one out for each page."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from engine.errors import reason_of
from engine.http.byte_budget import BodyShare
from engine.processes.forks import Fork, Forks
from engine.processes.launcher import TemplateLink, TemplateLost
from engine.processes.orders import Ended
from engine.processes.program import ENTRY, read_failure

_log = logging.getLogger(__name__)
MAX_DEATHS = 5
"""Deaths in a row, without an answer in between, after which a page fails."""
_RESTART_SECONDS = 0.1
_TEMPLATE_SECONDS = 10.0
"""A template that died is followed by another within them."""
_CHUNK_BYTES = 65_536


class CommandFailed(Exception):
    """The program gave no answer for a page; the message says why."""


class CommandProcess:
    """One process, which works on one page after another."""

    def __init__(self, forks: Forks, command: Sequence[str]) -> None:
        """Start it. Raises TemplateLost, OSError."""
        self.is_usable = False
        """Whether it may get another page: its last answer was one line, and the right one."""
        self.ended: asyncio.Future[tuple[Ended, str]] = asyncio.get_running_loop().create_future()
        """How it ended, and why the program could not be run; empty if it ran."""
        self._stdin, stdin = socket.socketpair()
        self._stdout, stdout = socket.socketpair()
        files = {"stdin": stdin.fileno(), "stdout": stdout.fileno()}
        with stdin, stdout:
            self._fork: Fork = forks.start({"command": command}, files, self._on_end)
        for connection in (self._stdin, self._stdout):
            connection.setblocking(False)

    async def ask(self, line: bytes, share: BodyShare | None, *, limit: float, max_bytes: int) -> bytes:
        """The line that it answers; empty: it has ended. Raises CommandFailed."""
        self.is_usable = False
        sending = asyncio.ensure_future(self._send(line))
        try:
            async with asyncio.timeout(limit):
                answer, rest = await self._read_line(share, max_bytes)
                if answer:
                    await sending
        except TimeoutError:
            raise CommandFailed(f"takes longer than its limit of {limit:g} s") from None
        finally:
            sending.cancel()
        self.is_usable = not rest
        return answer

    async def end(self) -> tuple[Ended, str]:
        """Kill it, and wait for its end."""
        self._fork.kill()
        ended = await asyncio.shield(self.ended)
        self._stdin.close()
        self._stdout.close()
        return ended

    async def _send(self, line: bytes) -> None:
        with suppress(OSError):  # it has ended
            await asyncio.get_running_loop().sock_sendall(self._stdin, line + b"\n")

    async def _read_line(self, share: BodyShare | None, max_bytes: int) -> tuple[bytes, bytes]:
        """The next line, and what came behind it."""
        parts: list[bytes] = []
        size = 0
        while chunk := await self._read():
            size += len(chunk)
            if size > max_bytes:
                raise CommandFailed(f"its answer has more than {max_bytes / 1e6:,.0f} MB")
            if share is not None:
                await share.grow(len(chunk))
            head, feed, rest = chunk.partition(b"\n")
            parts.append(head)
            if feed:
                return b"".join(parts) or b" ", rest
        return b"", b""

    async def _read(self) -> bytes:
        with suppress(OSError):
            return await asyncio.get_running_loop().sock_recv(self._stdout, _CHUNK_BYTES)
        return b""

    def _on_end(self, ended: Ended) -> None:
        self.ended.set_result((ended, read_failure(self._fork.connection)))


class CommandPool:
    """The processes of one command. For one event loop."""

    def __init__(
        self, link: TemplateLink, arguments: Sequence[str], *, workers: int, limit: float, max_bytes: int
    ) -> None:
        """`limit`: seconds for one page. `max_bytes`: of one answer."""
        self._forks = Forks(link, ENTRY, "command", leads_session=True)
        self._arguments = arguments
        self._workers = workers
        self._limit = limit
        self._max_bytes = max_bytes
        self.version = 0
        """The newest version of the defs that has the command."""
        self.users = 0
        """Pages that use it, or wait to."""
        self._free = asyncio.Semaphore(workers)
        self._idle: list[CommandProcess] = []
        self._deaths = 0
        self._is_closed = False

    @asynccontextmanager
    async def ask(self, line: bytes, share: BodyShare | None) -> AsyncIterator[tuple[bytes, float, CommandProcess]]:
        """The answer to a line without its line feed, its milliseconds, and its process, which waits meanwhile.

        Waits until a process is free. A page whose answer was lost is asked again. `share` grows with the answer.
        Raises CommandFailed.
        """
        self.users += 1
        try:
            async with self._free:
                began = time.perf_counter()
                answer, process = await self._ask(line, share)
                try:
                    yield answer, (time.perf_counter() - began) * 1000, process
                finally:
                    await self._give_back(process)
        finally:
            self.users -= 1

    def close(self) -> None:
        """Kill all processes; start no more."""
        self._is_closed = True
        self._forks.close()
        self._idle.clear()

    async def _ask(self, line: bytes, share: BodyShare | None) -> tuple[bytes, CommandProcess]:
        deaths = 0
        while True:
            process = await self._take()
            try:
                answer = await process.ask(line, share, limit=self._limit, max_bytes=self._max_bytes)
            except BaseException:  # also when the job is cancelled: the process may still write its answer
                await self._give_back(process)
                raise
            if answer:
                self._deaths = 0
                return answer, process
            if self._is_closed:
                raise CommandFailed("the program is being stopped")
            ended, failure = await process.end()
            if failure:
                raise CommandFailed(failure)
            deaths, self._deaths = deaths + 1, self._deaths + 1
            _log.warning("%s: ended without an answer (%s)", self._arguments[0], ended.cause)
            if deaths >= MAX_DEATHS or self._deaths >= MAX_DEATHS * self._workers:
                times = "once" if deaths == 1 else f"{deaths} times"
                raise CommandFailed(
                    f"the program ended {times} without an answer ({ended.cause}); see `logs` for stderr"
                )
            await asyncio.sleep(_RESTART_SECONDS * (deaths - 1))

    async def _take(self) -> CommandProcess:
        """An idle process, else a new one. Raises CommandFailed."""
        while self._idle:
            idle = self._idle.pop()
            if not idle.ended.done():
                return idle
            await idle.end()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TEMPLATE_SECONDS
        while not self._is_closed:
            try:
                return CommandProcess(self._forks, self._arguments)
            except (TemplateLost, OSError) as error:
                if not isinstance(error, TemplateLost) or loop.time() > deadline:
                    raise CommandFailed(f"cannot run {self._arguments[0]}: {reason_of(error)}") from error
            await asyncio.sleep(_RESTART_SECONDS)
        raise CommandFailed("the program is being stopped")

    async def _give_back(self, process: CommandProcess) -> None:
        if process.is_usable and not self._is_closed:
            self._idle.append(process)
        elif not self._is_closed:
            await process.end()
