"""The loader processes of a node: started on demand, kept warm, replaced for new defs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.errors import NoRoom
from crawl_engine.model.definition import Definitions
from crawl_engine.model.step import ChainStep
from crawl_engine.node.loading.messages import OTHER_BYTES, Answer, NotLoaded, Ready, decode_answer
from crawl_engine.plugins.files import encode_files
from crawl_engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from crawl_engine.processes.orders import ProcessKind
from crawl_engine.processes.pool import Need, Pool
from crawl_engine.processes.worker import Question, Worker, WorkerEnded
from crawl_engine.settings import Settings

_KIND = ProcessKind("crawl_engine.node.loading.loader_child:main", "loader", leads_session=True)
_KEPT_SHARE = 0.5
"""Part of `parse_memory` that a process may keep between two pages; a process that keeps more is replaced."""


class LoaderUnavailable(Exception):
    """No process with the plugin loader can be started. The message says why."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class LoaderProcess(Worker):
    """Used by one job at a time."""

    def __init__(self, launcher: Launcher, settings: Settings) -> None:
        """Start it. Raises TemplateLost and OSError."""
        super().__init__(
            launcher, _KIND, max_bytes=settings.max_body + OTHER_BYTES, memory=settings.parse_memory
        )  # fmt: skip
        self._max_body = settings.max_body
        self.has_loader = False
        self.waited = 0.0
        """Seconds that the last answer waited for room in the node."""

    async def load(
        self, header: Mapping[str, Any], body: bytes, *, seconds: float, share: BodyShare | None = None
    ) -> Answer:
        """The answer to a message. `share` grows with the answer; waiting for room does not count as time.

        Raises WorkerEnded, and NoRoom if the answer waits for longer than `seconds`.
        """
        question = Question[Answer](
            header, body, seconds=seconds, read=lambda header, body: decode_answer(header, body, self._max_body)
        )
        question.room, question.room_seconds = share, seconds
        try:
            return await self.ask(question)
        except TimeoutError:
            raise NoRoom from None
        except asyncio.CancelledError:  # the rest of its work is useless
            self.kill("is no longer needed")
            raise
        finally:
            self.waited = question.waited


class LoaderPool:
    """For one event loop."""

    def __init__(self, link: TemplateLink, settings: Settings) -> None:
        self._launcher = Launcher(link, "loader")
        self._settings = settings
        kept = settings.parse_memory * _KEPT_SHARE
        self._pool = Pool(self._start, is_reusable=lambda one: one.has_loader and one.resident_bytes <= kept)

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return self._pool.pids

    def has_free(self, step: ChainStep, version: int) -> bool:
        """Whether `reserve` would return at once."""
        return self._pool.has_free(_need(step, version))

    @asynccontextmanager
    async def reserve(
        self, step: ChainStep, definitions: Definitions, version: int, *, limit: float
    ) -> AsyncIterator[LoaderProcess]:
        """A process with the loader of a step, for one page; waits until one is free.

        `limit`: seconds in which the loader must be created. Raises LoaderUnavailable.
        """
        need, may_repeat = _need(step, version), True
        while True:
            losses = self._launcher.losses
            try:
                async with self._pool.reserve(need) as process:
                    if not process.has_loader:
                        await _create_loader(process, step, definitions, limit)
                    yield process
                    return
            except _LoaderLost:
                if losses == self._launcher.losses or not may_repeat:
                    raise
                may_repeat = False  # its template had ended, unnoticed so far

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
        self._launcher.close()

    def _start(self, _: Need) -> LoaderProcess:
        try:
            return LoaderProcess(self._launcher, self._settings)
        except (TemplateLost, OSError) as error:
            raise LoaderUnavailable(f"no loader process can be started: {error}", "unavailable") from error


class _LoaderLost(LoaderUnavailable):
    """The process ended before it had its loader."""


async def _create_loader(process: LoaderProcess, step: ChainStep, definitions: Definitions, limit: float) -> None:
    header = {"kind": "prepare", "class": step.class_name, "options": {**step.options}}
    try:
        answer = await process.load(header, encode_files(definitions.plugins), seconds=limit)
    except WorkerEnded as end:
        raise _LoaderLost(f"{step.class_name} cannot be created: {end}", "died") from end
    if isinstance(answer, NotLoaded):
        raise LoaderUnavailable(answer.text, answer.code)
    if not isinstance(answer, Ready):
        raise LoaderUnavailable("its process sent an invalid answer", "died")
    process.has_loader = True


def _need(step: ChainStep, version: int) -> Need:
    options = orjson.dumps({**step.options}, option=orjson.OPT_SORT_KEYS)
    return Need((version, step.class_name, options, step.workers), size=step.workers, version=version)
