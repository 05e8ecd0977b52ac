"""The processes of one kind: how many, who waits for one, which are kept for new versions."""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from itertools import count
from operator import itemgetter
from typing import Generic, Literal, TypeVar

from msgspec import Struct, field

from crawl_engine.processes.worker import LaunchedProcess

_orders = count()


Process = TypeVar("Process", bound=LaunchedProcess)


class Need(Struct, eq=False):
    """Who needs a process. What was lost with one process needs another, before those that came later."""

    key: Hashable
    """Of the processes that can serve it."""
    size: int = 1
    """How many of them there may be."""
    version: int = 0
    """Of the defs that need it."""
    order: int = field(default_factory=lambda: next(_orders))


AnyNeed = TypeVar("AnyNeed", bound=Need)


class Pool(Generic[Process, AnyNeed]):
    """For one event loop. Processes are started when they are needed, and serve one need at a time.

    A pool whose processes have places for several needs chooses itself.
    """

    def __init__(
        self, start: Callable[[AnyNeed], Process], *, is_reusable: Callable[[Process], bool] = lambda _: True,
        kept_versions: int = 0,
    ) -> None:  # fmt: skip
        """`start`: a new process for a need. `is_reusable`: whether a process that was given back is kept.

        `kept_versions`: how many versions before the newest one have idle processes.
        """
        self._start = start
        self._is_reusable = is_reusable
        self._kept_versions = kept_versions
        self.processes: list[Process] = []
        """Until their end is known; the one that was used last comes last."""
        self._waiting: list[tuple[int, AnyNeed, asyncio.Future[Process]]] = []
        self._versions: dict[Hashable, int] = {}
        self._newest = 0

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return [process.pid for process in list(self.processes) if process.pid is not None]

    def has_free(self, need: AnyNeed) -> bool:
        """Whether `reserve` would return at once."""
        return self.choose(need) is not None and not self._is_queued(need)

    @property
    def is_waiting(self) -> bool:
        """Whether a need waits."""
        return any(not served.done() for _, _, served in self._waiting)

    async def take(self, need: AnyNeed) -> Process:
        """A process for a need, once there is one. Raises what `start` raises."""
        self._note_version(need)
        if not self._is_queued(need) and (process := self._take(need)) is not None:
            return process
        served: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        waiter = need.order, need, served
        insort(self._waiting, waiter, key=itemgetter(0))
        self.dispatch()
        try:
            return await served
        except BaseException:
            if served.done() and not served.cancelled() and served.exception() is None:
                self.give_back(served.result(), need)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def give_back(self, process: Process, need: AnyNeed) -> None:
        """Release a process that was taken for a need."""
        process.serves.remove(need)
        if not self._is_current(process) or not self._is_reusable(process):
            process.kill("is replaced")
        if process in self.processes:
            self.processes.remove(process)
            self.processes.append(process)
        elif not process.serves:
            process.close()
        self._dispatch_after(process)

    @asynccontextmanager
    async def reserve(self, need: AnyNeed) -> AsyncIterator[Process]:
        """A process for a need, which is given back at the end. Raises what `start` raises."""
        process = await self.take(need)
        try:
            yield process
        finally:
            self.give_back(process, need)

    def choose(self, need: AnyNeed) -> Process | Literal["start"] | None:
        """The process for a need, or "start" for a new one. None: it waits."""
        serving = [process for process in self.processes if process.key == need.key]
        idle = [process for process in serving if process.is_open and not process.serves]
        if idle:
            return idle[-1]  # the warmest
        return "start" if len(serving) < need.size else None

    def dispatch(self) -> None:
        """Serve what waits, in order, while processes are free."""
        full: set[Hashable] = set()
        for _, need, served in list(self._waiting):
            if served.done() or need.key in full:
                continue
            try:
                process = self._take(need)
            except Exception as error:
                served.set_exception(error)
                continue
            if process is None:
                full.add(need.key)
            else:
                served.set_result(process)

    def fail_waiting(self, error: Callable[[], Exception]) -> None:
        """Fail all needs that wait."""
        for _, _, served in self._waiting:
            if not served.done():
                served.set_exception(error())

    def close(self) -> None:
        """End all processes; what waits is cancelled."""
        for process in self.processes:
            process.close()
        for _, _, served in self._waiting:
            served.cancel()
        self.processes, self._waiting = [], []

    def _is_queued(self, need: AnyNeed) -> bool:
        return any(
            other.key == need.key and order < need.order and not served.done() for order, other, served in self._waiting
        )

    def _take(self, need: AnyNeed) -> Process | None:
        chosen = self.choose(need)
        if chosen is None:
            return None
        process = self._start(need) if chosen == "start" else chosen
        if chosen == "start":
            process.key = need.key
            process.on_finish = lambda: self._on_end(process)
            self.processes.append(process)
        process.serves.append(need)
        return process

    def _on_end(self, process: Process) -> None:
        self.processes.remove(process)
        if not process.serves:  # else its last answer may still be read
            process.close()
        self._dispatch_after(process)

    def _dispatch_after(self, process: Process) -> None:
        if process.ended is None:
            self.dispatch()
        else:  # what is lost with it needs another one before
            asyncio.get_running_loop().call_soon(self.dispatch)

    def _note_version(self, need: AnyNeed) -> None:
        """Keep the newest version that needs a process; a newer one than before ends what only older ones need."""
        self._versions[need.key] = max(need.version, self._versions.get(need.key, 0))
        if need.version > self._newest:
            self._newest = need.version
            for process in self.processes:
                if not process.serves and not self._is_current(process):
                    process.kill("serves an older version")
            used = {process.key for process in self.processes} | {need.key}
            self._versions = {key: version for key, version in self._versions.items() if key in used}

    def _is_current(self, process: Process) -> bool:
        return self._versions.get(process.key, 0) >= self._newest - self._kept_versions
