"""The programs of `command` steps: kept warm, one JSON line in and one out for each page."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

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
    """One process, while it works on a page."""

    def __init__(self, forks: Forks, command: Sequence[str]) -> None:
        """Start it. Raises TemplateLost, OSError."""
        self.is_usable = True
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

    def discard(self) -> None:
        """Give it no further page: its next output may belong to this one."""
        self.is_usable = False

    async def send(self, data: bytes) -> None:
        with suppress(OSError):  # it has ended
            await asyncio.get_running_loop().sock_sendall(self._stdin, data)

    async def read(self) -> bytes:
        """The next output; empty at its end."""
        with suppress(OSError):
            return await asyncio.get_running_loop().sock_recv(self._stdout, _CHUNK_BYTES)
        return b""

    async def end(self) -> tuple[Ended, str]:
        """Kill it, and wait for its end."""
        self.discard()
        self._fork.kill()
        ended = await asyncio.shield(self.ended)
        self._stdin.close()
        self._stdout.close()
        return ended

    def _on_end(self, ended: Ended) -> None:
        self.ended.set_result((ended, read_failure(self._fork.connection)))


class CommandPool:
    """The processes of one command. For one event loop."""

    def __init__(
        self, link: TemplateLink, arguments: Sequence[str], *, workers: int, limit: float, max_bytes: int,
        version: int = 0,
    ) -> None:  # fmt: skip
        """`limit`: seconds for one page. `max_bytes`: of one answer."""
        self._forks = Forks(link, ENTRY, "command", leads_session=True)
        self._arguments = arguments
        self._workers = workers
        self._limit = limit
        self._max_bytes = max_bytes
        self.version = version
        """The newest version of the defs that has the command."""
        self.users = 0
        """Pages that use it, or wait to."""
        self._free = asyncio.Semaphore(workers)
        self._idle: list[CommandProcess] = []
        self._deaths = 0
        self._is_closed = False

    @asynccontextmanager
    async def reserve(self) -> "AsyncIterator[CommandTurn]":
        """A turn for one page; waits until a process is free. Discard its process unless its answer was right."""
        self.users += 1
        try:
            async with self._free:
                turn = CommandTurn(self)
                try:
                    yield turn
                finally:
                    await self._finish(turn.current)
        finally:
            self.users -= 1

    def close(self) -> None:
        """Kill all processes; start no more."""
        self._is_closed = True
        self._forks.close()
        self._idle.clear()

    async def ask(self, turn: "CommandTurn", line: bytes, share: BodyShare | None) -> bytes:
        """The answer to a line, without its line feed. A page whose answer was lost is asked again.

        `share` grows with the answer. Raises CommandFailed.
        """
        deaths = 0
        while True:
            turn.current = await self._take()
            answer = await self._ask(turn.current, line, share)
            if answer:
                self._deaths = 0
                return answer
            if self._is_closed:
                raise CommandFailed("the program is being stopped")
            ended, failure = await turn.current.end()
            if failure:
                raise CommandFailed(failure)
            turn.current, deaths, self._deaths = None, deaths + 1, self._deaths + 1
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
                    reason = getattr(error, "strerror", None) or str(error)
                    raise CommandFailed(f"cannot run {self._arguments[0]}: {reason}") from error
            await asyncio.sleep(_RESTART_SECONDS)
        raise CommandFailed("the program is being stopped")

    async def _ask(self, asked: CommandProcess, line: bytes, share: BodyShare | None) -> bytes:
        """The line that the process answers; empty: it has ended. Raises CommandFailed."""
        sending = asyncio.ensure_future(asked.send(line + b"\n"))
        try:
            async with asyncio.timeout(self._limit):
                answer = await self._read_line(asked, share)
                if answer:
                    await sending
                return answer
        except TimeoutError:
            raise CommandFailed(f"takes longer than its limit of {self._limit:g} s") from None
        finally:
            sending.cancel()

    async def _read_line(self, asked: CommandProcess, share: BodyShare | None) -> bytes:
        parts: list[bytes] = []
        size = 0
        while chunk := await asked.read():
            size += len(chunk)
            if size > self._max_bytes:
                raise CommandFailed(f"its answer has more than {self._max_bytes / 1e6:,.0f} MB")
            if share is not None:
                await share.grow(len(chunk))
            head, feed, rest = chunk.partition(b"\n")
            parts.append(head)
            if feed:
                if rest:
                    asked.discard()
                return b"".join(parts) or b" "
        return b""

    async def _finish(self, used: CommandProcess | None) -> None:
        if used is not None and used.is_usable and not used.ended.done() and not self._is_closed:
            self._idle.append(used)
        elif used is not None and not self._is_closed:
            await used.end()


class CommandTurn:
    """The turn of one page at a command."""

    def __init__(self, pool: CommandPool) -> None:
        self._pool = pool
        self.current: CommandProcess | None = None

    async def ask(self, line: bytes, share: BodyShare | None) -> bytes:
        """The answer to a line. Raises CommandFailed."""
        try:
            return await self._pool.ask(self, line, share)
        except BaseException:  # also when the job is cancelled: the process may still write its answer
            self.discard()
            raise

    def discard(self) -> None:
        """Give the process that answered no further page."""
        if self.current is not None:
            self.current.discard()
