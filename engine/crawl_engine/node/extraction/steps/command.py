"""The programs of `command` steps: kept warm, one JSON line in and one out for each page."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from crawl_engine.errors import reason_of
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from crawl_engine.processes.pool import Need, Pool
from crawl_engine.processes.program import Program

_log = logging.getLogger(__name__)
MAX_DEATHS = 5
"""Deaths in a row, without an answer in between, after which a page fails."""
_RESTART_SECONDS = 0.1
_TEMPLATE_SECONDS = 10.0
"""A template that died is followed by another within them."""


class CommandFailed(Exception):
    """The program gave no answer for a page; the message says why."""


class _TemplateAway(CommandFailed):
    """The template is lost; another one follows."""


class StepCommand(Struct, frozen=True):
    """A program that works pages. `limit`: seconds for one page."""

    arguments: tuple[str, ...]
    workers: int
    limit: float


class CommandProcess(Program):
    """One process, which works on one page after another."""

    is_usable = False
    """Whether it may get another page: its last answer was one line, and the right one."""

    async def ask(self, line: bytes, share: BodyShare | None, *, limit: float, max_bytes: int) -> bytes:
        """The line that it answers; empty: it has ended. Raises CommandFailed."""
        self.is_usable = False
        sending = asyncio.ensure_future(self.write(line + b"\n"))
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

    async def _read_line(self, share: BodyShare | None, max_bytes: int) -> tuple[bytes, bytes]:
        """The next line, and what came behind it."""
        parts: list[bytes] = []
        size = 0
        while chunk := await self.read():
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


class CommandPool:
    """The processes of all commands. For one event loop."""

    def __init__(self, link: TemplateLink, *, max_bytes: int) -> None:
        """`max_bytes`: of one answer."""
        self._launcher = Launcher(link, "command")
        self._max_bytes = max_bytes
        self._pool = Pool(self._start, is_reusable=lambda process: process.is_usable, kept_versions=1)
        self._deaths = Counter[StepCommand]()
        self._is_closed = False

    @asynccontextmanager
    async def ask(
        self, command: StepCommand, version: int, line: bytes, share: BodyShare | None
    ) -> AsyncIterator[tuple[bytes, float, CommandProcess]]:
        """The answer to a line without its line feed, its milliseconds, and its process, which waits meanwhile.

        Waits until a process is free. A page whose answer was lost is asked again. `share` grows with the answer.
        `version`: of the defs. Raises CommandFailed.
        """
        need = Need(command, size=command.workers, version=version)
        began = time.perf_counter()
        deaths = 0
        while True:
            try:
                async with self._pool.reserve(need) as process:
                    began = time.perf_counter() if not deaths else began
                    answer = await process.ask(line, share, limit=command.limit, max_bytes=self._max_bytes)
                    if answer:
                        self._deaths[command] = 0
                        yield answer, (time.perf_counter() - began) * 1000, process
                        return
                    ended = await process.end()
            except _TemplateAway:
                if time.perf_counter() - began > _TEMPLATE_SECONDS:
                    raise
                await asyncio.sleep(_RESTART_SECONDS)
                continue
            if self._is_closed or ended is None:
                raise CommandFailed("the program is being stopped")
            if process.failure:
                raise CommandFailed(process.failure)
            deaths += 1
            self._deaths[command] += 1
            _log.warning("%s: ended without an answer (%s)", command.arguments[0], ended.cause)
            if deaths >= MAX_DEATHS or self._deaths[command] >= MAX_DEATHS * command.workers:
                times = "once" if deaths == 1 else f"{deaths} times"
                raise CommandFailed(
                    f"the program ended {times} without an answer ({ended.cause}); see `logs` for stderr"
                )
            await asyncio.sleep(_RESTART_SECONDS * (deaths - 1))

    def close(self) -> None:
        """Kill all processes; start no more."""
        self._is_closed = True
        self._pool.close()
        self._launcher.close()

    def _start(self, need: Need) -> CommandProcess:
        assert isinstance(need.key, StepCommand)
        if self._is_closed:
            raise CommandFailed("the program is being stopped")
        try:
            return CommandProcess(self._launcher, need.key.arguments, "command")
        except (TemplateLost, OSError) as error:
            failed = _TemplateAway if isinstance(error, TemplateLost) else CommandFailed
            raise failed(f"cannot run {need.key.arguments[0]}: {reason_of(error)}") from error
