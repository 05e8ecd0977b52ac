"""The loader processes of a node: started on demand, kept warm, replaced for new defs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from msgspec import Struct, field

from engine.model.definition import Definitions
from engine.model.step import ChainStep
from engine.node.loading.loader_process import LoaderDied, LoaderProcess
from engine.node.loading.messages import NotLoaded, Ready, encode_preparation
from engine.processes.forks import Forks
from engine.processes.launcher import TemplateLink, TemplateLost
from engine.processes.orders import Ended
from engine.settings import Settings


class LoaderUnavailable(Exception):
    """No process with the plugin loader can be started. The message says why."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class _Group(Struct):
    """The processes of one loader step of one version of the defs."""

    version: int
    free: asyncio.Semaphore
    idle: list[LoaderProcess] = field(default_factory=list)
    users: int = 0
    """Jobs that have a process or wait for one."""


class LoaderPool:
    """For one event loop."""

    def __init__(self, link: TemplateLink, settings: Settings) -> None:
        self._forks = Forks(link, "engine.node.loading.loader_child:main", "loader", leads_session=True)
        self._memory = settings.parse_memory
        self._max_body = settings.max_body
        self._groups: dict[tuple[int, bytes], _Group] = {}
        self._processes: list[LoaderProcess] = []
        self._newest = 0

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return [process.pid for process in list(self._processes) if process.pid is not None]

    def has_free(self, step: ChainStep, version: int) -> bool:
        """Whether `reserve` would return at once."""
        group = self._groups.get(_key(step, version))
        return group is None or not group.free.locked()

    @asynccontextmanager
    async def reserve(
        self, step: ChainStep, definitions: Definitions, version: int, *, limit: float
    ) -> AsyncIterator[LoaderProcess]:
        """A process with the loader of a step, for one page; waits until one is free.

        `limit`: seconds in which the loader must be created. Raises LoaderUnavailable.
        """
        if version > self._newest:
            self._newest = version
            self._retire_older()
        key = _key(step, version)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(version, asyncio.Semaphore(step.workers))
        group.users += 1
        try:
            async with group.free:
                process = _take_idle(group) or await self._start(step, definitions, limit)
                try:
                    yield process
                finally:
                    if process.is_usable and version == self._newest and not process.keeps_too_much:
                        group.idle.append(process)
                    else:
                        process.kill("is replaced")
        finally:
            group.users -= 1
            if not group.users and not group.idle and self._groups.get(key) is group:
                del self._groups[key]

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
        self._processes.clear()
        self._groups.clear()
        self._forks.close()

    def _retire_older(self) -> None:
        for key, group in list(self._groups.items()):
            if group.version < self._newest:
                for process in group.idle:
                    process.kill("serves an older version")
                group.idle.clear()
                if not group.users:
                    del self._groups[key]

    async def _start(
        self, step: ChainStep, definitions: Definitions, limit: float, *, may_repeat: bool = True
    ) -> LoaderProcess:
        """A new process, whose loader has been created. Raises LoaderUnavailable."""
        losses = self._forks.losses
        try:
            process = self._open()
        except (TemplateLost, OSError) as error:
            raise LoaderUnavailable(f"no loader process can be started: {error}", "unavailable") from error
        try:
            answer = await process.ask(
                encode_preparation(step.class_name, step.options, definitions.plugins), seconds=limit
            )
        except LoaderDied as death:
            if losses < self._forks.losses and may_repeat:  # its template had ended, unnoticed so far
                return await self._start(step, definitions, limit, may_repeat=False)
            raise LoaderUnavailable(f"{step.class_name} cannot be created: {death}", "died") from death
        if isinstance(answer, Ready):
            return process
        process.kill("has no loader")
        if isinstance(answer, NotLoaded):
            raise LoaderUnavailable(answer.text, answer.code)
        raise LoaderUnavailable("its process sent an invalid answer", "died")

    def _open(self) -> LoaderProcess:
        """A new process. Raises TemplateLost and OSError."""
        process: LoaderProcess

        def on_end(ended: Ended) -> None:
            self._processes.remove(process)
            process.on_end(ended)

        process = LoaderProcess(self._forks.start({}, {}, on_end), memory=self._memory, max_body=self._max_body)
        self._processes.append(process)
        return process


def _take_idle(group: _Group) -> LoaderProcess | None:
    """An idle process that is alive; the last used one is the warmest."""
    while group.idle:
        process = group.idle.pop()
        if process.is_usable:
            return process
    return None


def _key(step: ChainStep, version: int) -> tuple[int, bytes]:
    return version, orjson.dumps((step.class_name, {**step.options}, step.workers), option=orjson.OPT_SORT_KEYS)
