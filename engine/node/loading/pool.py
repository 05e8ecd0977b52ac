"""The loader processes of a node: started on demand, kept warm, replaced for new defs."""

import asyncio
import logging
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import orjson
from msgspec import Struct, field

from engine.model.definition import Definitions
from engine.model.step import ChainStep
from engine.node.extraction.launcher import Ended, ExtractionLauncher, Started, TemplateLost
from engine.node.extraction.limits import ExtractionLimits
from engine.node.loading.loader_process import LoaderDied, LoaderProcess
from engine.node.loading.messages import NotLoaded, Ready, encode_preparation
from engine.settings import Settings

_log = logging.getLogger(__name__)
_MODULE = "engine.node.loading.template"
_END_SECONDS = 2.0


class LoaderLauncher(ExtractionLauncher):
    """The node's handle of the template of its loader processes. Not thread-safe.

    The template is a fresh interpreter, started when the first loader is needed.
    """

    def __init__(self, limits: ExtractionLimits) -> None:
        super().__init__(limits, _MODULE)

    def close(self) -> None:
        """End all processes and their helpers: the template ends them when its socket is closed."""
        if self.control is not None and self._process is not None:
            self.control.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
        super().close()


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

    def __init__(self, launcher: LoaderLauncher, *, max_body: int) -> None:
        self._launcher = launcher
        self._max_body = max_body
        self._groups: dict[tuple[int, bytes], _Group] = {}
        self._processes: dict[int, LoaderProcess] = {}
        self._last_number = 0
        self._template_losses = 0
        self._newest = 0
        self._watched: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "LoaderPool":
        """A pool for these settings; nothing is started yet."""
        return cls(LoaderLauncher(ExtractionLimits.from_settings(settings)), max_body=settings.max_body)

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return [process.pid for process in list(self._processes.values()) if process.pid is not None]

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
        for process in list(self._processes.values()):
            process.close()
        self._processes.clear()
        self._groups.clear()
        self._unwatch()
        self._launcher.close()

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
        losses = self._template_losses
        try:
            process = self._open()
        except (TemplateLost, OSError) as error:
            self._on_template_lost()
            raise LoaderUnavailable(f"no loader process can be started: {error}", "unavailable") from error
        try:
            answer = await process.ask(
                encode_preparation(step.class_name, step.options, definitions.plugins), seconds=limit
            )
        except LoaderDied as death:
            if losses < self._template_losses and may_repeat:  # its template had ended, unnoticed so far
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
        if self._launcher.control is None:
            self._launcher.spawn_template()
            self._watch()
        self._last_number += 1
        number = self._last_number
        connection = self._launcher.start(number, 0)
        process = self._processes[number] = LoaderProcess(
            number,
            connection,
            memory=self._launcher.limits.memory,
            max_body=self._max_body,
            kill=lambda: self._launcher.kill(number),
        )
        return process

    def _watch(self) -> None:
        control = self._launcher.control
        assert control is not None
        control.setblocking(False)
        self._watched = control.fileno()
        asyncio.get_running_loop().add_reader(self._watched, self._receive_reports)

    def _receive_reports(self) -> None:
        try:
            reports = self._launcher.receive_reports()
        except (BlockingIOError, TimeoutError):
            return
        except TemplateLost:
            self._on_template_lost()
            return
        for report in reports:
            process = self._processes.get(report.number)
            if process is None:
                continue
            if isinstance(report, Started):
                process.pid = report.pid
            else:
                del self._processes[report.number]
                process.on_ended(report)

    def _on_template_lost(self) -> None:
        """Forget the processes, which die with their template; the next page has another one started."""
        _log.warning("the process that forks loader processes has ended")
        self._template_losses += 1
        self._unwatch()
        self._launcher.close()
        for number, process in list(self._processes.items()):
            process.on_template_lost(Ended(number, signal.SIGKILL, 0))
        self._processes.clear()

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None


def _take_idle(group: _Group) -> LoaderProcess | None:
    """An idle process that is alive; the last used one is the warmest."""
    while group.idle:
        process = group.idle.pop()
        if process.is_usable:
            return process
    return None


def _key(step: ChainStep, version: int) -> tuple[int, bytes]:
    return version, orjson.dumps((step.class_name, {**step.options}, step.workers), option=orjson.OPT_SORT_KEYS)
