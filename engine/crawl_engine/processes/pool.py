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


class Claim(Struct, eq=False):
    """Who needs a process. What was lost with one process claims another, before those that came later."""

    key: Hashable
    """Of the processes that can serve it."""
    size: int = 1
    """How many of them there may be."""
    version: int = 0
    """Of the defs that need it."""
    order: int = field(default_factory=lambda: next(_orders))


Need = TypeVar("Need", bound=Claim)


class Pool(Generic[Process, Need]):
    """For one event loop. Processes are started when they are needed, and serve one claim at a time.

    A pool whose processes have places for several claims chooses itself.
    """

    def __init__(
        self, start: Callable[[Need], Process], *, is_reusable: Callable[[Process], bool] = lambda _: True,
        kept_versions: int = 0,
    ) -> None:  # fmt: skip
        """`start`: a new process for a claim. `is_reusable`: whether a process that was given back is kept.

        `kept_versions`: how many versions before the newest one have idle processes.
        """
        self._start = start
        self._is_reusable = is_reusable
        self._kept_versions = kept_versions
        self.processes: list[Process] = []
        """Until their end is known; the one that was used last comes last."""
        self._waiting: list[tuple[int, Need, asyncio.Future[Process]]] = []
        self._versions: dict[Hashable, int] = {}
        self._newest = 0

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return [process.pid for process in list(self.processes) if process.pid is not None]

    def has_free(self, claim: Need) -> bool:
        """Whether `reserve` would return at once."""
        return self.choose(claim) is not None and not self._is_queued(claim)

    @property
    def is_waiting(self) -> bool:
        """Whether a claim waits."""
        return any(not served.done() for _, _, served in self._waiting)

    async def take(self, claim: Need) -> Process:
        """A process for a claim, once there is one. Raises what `start` raises."""
        self._note_version(claim)
        if not self._is_queued(claim) and (process := self._take(claim)) is not None:
            return process
        served: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        waiter = claim.order, claim, served
        insort(self._waiting, waiter, key=itemgetter(0))
        self.dispatch()
        try:
            return await served
        except BaseException:
            if served.done() and not served.cancelled() and served.exception() is None:
                self.give_back(served.result(), claim)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def give_back(self, process: Process, claim: Need) -> None:
        """Release a process that was taken for a claim."""
        process.claims.remove(claim)
        if not self._is_current(process) or not self._is_reusable(process):
            process.kill("is replaced")
        if process in self.processes:
            self.processes.remove(process)
            self.processes.append(process)
        elif not process.claims:
            process.close()
        self._dispatch_after(process)

    @asynccontextmanager
    async def reserve(self, claim: Need) -> AsyncIterator[Process]:
        """A process for a claim, which is given back at the end. Raises what `start` raises."""
        process = await self.take(claim)
        try:
            yield process
        finally:
            self.give_back(process, claim)

    def choose(self, claim: Need) -> Process | Literal["start"] | None:
        """The process for a claim, or "start" for a new one. None: it waits."""
        serving = [process for process in self.processes if process.key == claim.key]
        idle = [process for process in serving if process.is_open and not process.claims]
        if idle:
            return idle[-1]  # the warmest
        return "start" if len(serving) < claim.size else None

    def dispatch(self) -> None:
        """Serve what waits, in order, while processes are free."""
        full: set[Hashable] = set()
        for _, claim, served in list(self._waiting):
            if served.done() or claim.key in full:
                continue
            try:
                process = self._take(claim)
            except Exception as error:
                served.set_exception(error)
                continue
            if process is None:
                full.add(claim.key)
            else:
                served.set_result(process)

    def fail_waiting(self, error: Callable[[], Exception]) -> None:
        """Fail all claims that wait."""
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

    def _is_queued(self, claim: Need) -> bool:
        return any(
            other.key == claim.key and order < claim.order and not served.done()
            for order, other, served in self._waiting
        )

    def _take(self, claim: Need) -> Process | None:
        chosen = self.choose(claim)
        if chosen is None:
            return None
        process = self._start(claim) if chosen == "start" else chosen
        if chosen == "start":
            process.key = claim.key
            process.on_finish = lambda: self._on_end(process)
            self.processes.append(process)
        process.claims.append(claim)
        return process

    def _on_end(self, process: Process) -> None:
        self.processes.remove(process)
        if not process.claims:  # else its last answer may still be read
            process.close()
        self._dispatch_after(process)

    def _dispatch_after(self, process: Process) -> None:
        if process.ended is None:
            self.dispatch()
        else:  # what is lost with it claims another one before
            asyncio.get_running_loop().call_soon(self.dispatch)

    def _note_version(self, claim: Need) -> None:
        """Keep the newest version that needs a process; a newer one than before ends what only older ones need."""
        self._versions[claim.key] = max(claim.version, self._versions.get(claim.key, 0))
        if claim.version > self._newest:
            self._newest = claim.version
            for process in self.processes:
                if not process.claims and not self._is_current(process):
                    process.kill("serves an older version")
            used = {process.key for process in self.processes} | {claim.key}
            self._versions = {key: version for key, version in self._versions.items() if key in used}

    def _is_current(self, process: Process) -> bool:
        return self._versions.get(process.key, 0) >= self._newest - self._kept_versions
