"""The process of an output, which a loop of the appender asks in its own thread."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from crawl_engine.append.loop.lifeline import StopSignal
from crawl_engine.append.loop.turns import SupervisorGone
from crawl_engine.processes.launcher import Launcher, TemplateLink
from crawl_engine.processes.worker import LaunchedProcess

_SLICE_SECONDS = 0.1
_Result = TypeVar("_Result")
_Process = TypeVar("_Process", bound=LaunchedProcess)


class OutputProcess(Generic[_Process]):
    """At most one process at a time, with an event loop that runs while the process is asked."""

    def __init__(self, link: TemplateLink, stop: StopSignal) -> None:
        self._launcher = Launcher(link)
        self._stop = stop
        self._runner: asyncio.Runner | None = None
        self.current: _Process | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process ended between two requests."""
        self._launcher.hear()
        return self.current is not None and not self.current.is_open

    def start(self, create: Callable[[Launcher], _Process]) -> _Process:
        """Start the process. Raises what `create` raises, SupervisorGone."""

        async def start() -> _Process:
            return create(self._launcher)

        self._runner = asyncio.Runner()
        try:
            self.current = self.run(start())
        except BaseException:
            self.end()
            raise
        return self.current

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """The result of the work, which is cancelled when the supervisor is gone. Raises SupervisorGone."""
        assert self._runner is not None
        return self._runner.run(self._watch(work))

    def end(self) -> None:
        """Kill the process, unless it has ended, and wait for that; may be called again."""
        if self.current is not None:
            with suppress(SupervisorGone):
                self.run(self.current.end())
            self.current.close()
        self._launcher.close()
        if self._runner is not None:
            self._runner.close()
        self.current = self._runner = None

    async def _watch(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=_SLICE_SECONDS))[0]:
            if self._stop.supervisor_gone:
                task.cancel()
                await asyncio.wait({task})
                raise SupervisorGone
        return task.result()
