"""The programs of `command` steps: kept warm, one JSON line in and one out for each page."""

import asyncio
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress

from engine.node.tuning import let_run_on

_log = logging.getLogger(__name__)
MAX_DEATHS = 5
"""Deaths in a row, without an answer in between, after which a page fails."""
_RESTART_SECONDS = 0.1


class CommandFailed(Exception):
    """The program gave no answer for a page; the text says why."""


class CommandPool:
    """The processes of one command. For one event loop."""

    def __init__(self, arguments: Sequence[str], *, workers: int, limit: float, max_bytes: int, cpus: set[int]) -> None:
        """`limit`: seconds for one page. `max_bytes`: of one answer. `cpus`: those that the programs may use."""
        self._arguments = arguments
        self._cpus = cpus
        self._limit = limit
        self._max_bytes = max_bytes
        self._free = asyncio.Semaphore(workers)
        self._idle: list[Process] = []
        self._processes: set[Process] = set()
        self._deaths = 0

    @property
    def pids(self) -> list[int]:
        """The live processes."""
        return [process.pid for process in self._processes if process.returncode is None]

    async def ask(self, line: bytes) -> bytes:
        """The answer to a line, without its line feed. A page whose answer was lost is asked again.

        Raises CommandFailed.
        """
        async with self._free:
            while True:
                process = await self._take()
                answer = await self._ask(process, line)
                if answer:
                    self._deaths = 0
                    self._idle.append(process)
                    return answer.rstrip(b"\n")
                code = await self._end(process)
                self._deaths += 1
                _log.warning("%s: ended without an answer (exit %s)", self._arguments[0], code)
                if self._deaths >= MAX_DEATHS:
                    raise CommandFailed(f"the program ended {self._deaths} times without an answer (exit {code})")
                await asyncio.sleep(_RESTART_SECONDS * (self._deaths - 1))

    def close(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
        self._processes.clear()
        self._idle.clear()

    async def _take(self) -> Process:
        """An idle process, else a new one."""
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._processes.discard(process)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=PIPE, stdout=PIPE, limit=self._max_bytes
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandFailed(f"cannot run {self._arguments[0]}: {reason}") from error
        self._processes.add(process)
        let_run_on(process.pid, self._cpus)
        return process

    async def _ask(self, process: Process, line: bytes) -> bytes:
        """The line that the process answers; empty: it has ended. Raises CommandFailed."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._limit):
                with suppress(ConnectionError, RuntimeError):  # it has ended; uvloop raises the latter
                    process.stdin.write(line + b"\n")
                    await process.stdin.drain()
                answer = await process.stdout.readline()
                return answer if answer.endswith(b"\n") else b""
        except TimeoutError:
            await self._end(process)
            raise CommandFailed(f"takes longer than its limit of {self._limit:g} s") from None
        except ValueError:
            await self._end(process)
            raise CommandFailed(f"its answer has more than {self._max_bytes / 1e6:,.0f} MB") from None
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.kill()
            self._processes.discard(process)
            raise

    async def _end(self, process: Process) -> int:
        """Kill a process and wait for its end; returns its exit code."""
        with suppress(ProcessLookupError):
            process.kill()
        self._processes.discard(process)
        return await process.wait()
