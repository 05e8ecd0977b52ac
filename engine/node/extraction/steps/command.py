"""The programs of `command` steps: kept warm, one JSON line in and one out for each page."""

import asyncio
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from engine.http.byte_budget import BodyShare
from engine.node.tuning import let_run_on

_log = logging.getLogger(__name__)
MAX_DEATHS = 5
"""Deaths in a row, without an answer in between, after which a page fails."""
_RESTART_SECONDS = 0.1
_END_SECONDS = 1.0
"""A process that was killed has ended after so long; one that it started may still hold its pipes."""
_CHUNK_BYTES = 65_536


class CommandFailed(Exception):
    """The program gave no answer for a page; the message says why."""


class CommandProcess:
    """One process, while it works on a page."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.is_usable = True
        """Whether it may get another page: its last answer was one line, and the right one."""

    def discard(self) -> None:
        """Give it no further page: its next output may belong to this one."""
        self.is_usable = False


class CommandPool:
    """The processes of one command. For one event loop."""

    def __init__(
        self, arguments: Sequence[str], *, workers: int, limit: float, max_bytes: int, cpus: set[int], version: int = 0
    ) -> None:
        """`limit`: seconds for one page. `max_bytes`: of one answer. `cpus`: those that the programs may use."""
        self._arguments = arguments
        self._workers = workers
        self._limit = limit
        self._max_bytes = max_bytes
        self._cpus = cpus
        self.version = version
        """The newest version of the defs that has the command."""
        self.users = 0
        """Pages that use it, or wait to."""
        self._free = asyncio.Semaphore(workers)
        self._idle: list[CommandProcess] = []
        self._processes: set[Process] = set()
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
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
        self._processes.clear()
        self._idle.clear()

    async def wait_closed(self) -> None:
        """Kill all processes and wait for their end, so that the event loop can be closed."""
        processes = list(self._processes)
        self.close()
        for process in processes:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_SECONDS)

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
            code = await self._end(turn.current)
            turn.current, deaths, self._deaths = None, deaths + 1, self._deaths + 1
            _log.warning("%s: ended without an answer (exit %s)", self._arguments[0], code)
            if deaths >= MAX_DEATHS or self._deaths >= MAX_DEATHS * self._workers:
                times = "once" if deaths == 1 else f"{deaths} times"
                raise CommandFailed(f"the program ended {times} without an answer (exit {code}); see `logs` for stderr")
            await asyncio.sleep(_RESTART_SECONDS * (deaths - 1))

    async def _take(self) -> CommandProcess:
        """An idle process, else a new one. Raises CommandFailed."""
        while self._idle:
            idle = self._idle.pop()
            if idle.process.returncode is None:
                return idle
            self._processes.discard(idle.process)
        if self._is_closed:
            raise CommandFailed("the program is being stopped")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=PIPE, stdout=PIPE, limit=_CHUNK_BYTES
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandFailed(f"cannot run {self._arguments[0]}: {reason}") from error
        self._processes.add(process)
        let_run_on(process.pid, self._cpus)
        return CommandProcess(process)

    async def _ask(self, asked: CommandProcess, line: bytes, share: BodyShare | None) -> bytes:
        """The line that the process answers; empty: it has ended. Raises CommandFailed."""
        process = asked.process
        assert process.stdin is not None
        try:
            async with asyncio.timeout(self._limit):
                with suppress(ConnectionError, RuntimeError):  # it has ended; uvloop raises the latter
                    process.stdin.write(line + b"\n")
                    await process.stdin.drain()
                return await self._read_line(asked, share)
        except TimeoutError:
            await self._end(asked)
            raise CommandFailed(f"takes longer than its limit of {self._limit:g} s") from None

    async def _read_line(self, asked: CommandProcess, share: BodyShare | None) -> bytes:
        assert asked.process.stdout is not None
        parts: list[bytes] = []
        size = 0
        while chunk := await asked.process.stdout.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > self._max_bytes:
                await self._end(asked)
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
        if used is None:
            return
        if used.is_usable and used.process.returncode is None and not self._is_closed:
            self._idle.append(used)
        else:
            await self._end(used)

    async def _end(self, ended: CommandProcess) -> int:
        """Kill a process and wait for its end; returns its exit code."""
        ended.discard()
        self._processes.discard(ended.process)
        with suppress(ProcessLookupError):
            ended.process.kill()
        with suppress(TimeoutError):
            return await asyncio.wait_for(ended.process.wait(), _END_SECONDS)
        return -9


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
