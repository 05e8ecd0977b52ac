"""What every loop of the appender shares: its turns, its fence, and the retries of outputs that fail."""

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from crawl_engine.append.loop.lifeline import Monitor, StopSignal
from crawl_engine.errors import CrawlError, Fenced, StorageError
from crawl_engine.store.db.connector import Database, DatabaseBusy
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.tables.run.runs import Run

FLUSH_SECONDS = 0.2
"""Seconds between two flushes while rows arrive slowly."""
IDLE_MIN_SECONDS, IDLE_MAX_SECONDS = 0.02, 0.1
GIVE_UP_SECONDS = 5.0
"""How long an appender that has nothing else to do retries an output that cannot be written."""
RETRY_SECONDS = 1.0
"""Seconds before a failed output is retried."""
MAX_BACKOFF_SECONDS = 30.0
_ERROR_CHARACTERS = 1_000

_log = logging.getLogger("appender")


class TurnResult(Enum):
    """The result of one turn of the loop."""

    MORE = "more rows are waiting"
    WROTE = "all new rows are written"
    IDLE = "there was nothing to write"
    BLOCKED = "the remaining work has to wait"


class OutputFailed(CrawlError):
    """A receiver, a program or a plugin class did not take rows, or not all of them."""

    def __init__(
        self, message: str, remedy: str = "", *, delivered: int = 0, retry_after: float = 0.0, starting: bool = False
    ) -> None:
        """`delivered`: how many changes it took, from the first on. `retry_after`: seconds, if it said so.

        `starting`: it said that it starts, and will take rows then.
        """
        super().__init__(message, remedy)
        self.delivered = delivered
        self.retry_after = retry_after
        self.starting = starting


class SupervisorGone(Exception):
    """The supervisor ended: nothing more is written."""


class LoopContext(Struct, frozen=True):
    """A loop of the appender: its run, its fence, and what it reports to and stops by."""

    db: Database
    """No other code uses it."""
    data: Path
    """The data dir."""
    run: Run
    epoch: int
    monitor: Monitor
    stop: StopSignal
    give_up_seconds: float = GIVE_UP_SECONDS
    """While draining, how long outputs may fail with nothing written."""

    def check(self) -> None:
        """Raise Fenced if another appender has taken over."""
        if not nodes.is_appender_alive(self.db, self.epoch):
            raise Fenced(f"appender {self.epoch}: its epoch has ended", "Another appender writes the rows.")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One write transaction of this epoch. Raises Fenced."""
        with self.db.transaction():
            self.check()
            yield


class OutputRetries:
    """The failed outputs of one loop. `backoff`: each retry of plugin classes waits twice as long as the one before."""

    def __init__(self, loop: LoopContext, *, backoff: bool) -> None:
        self._loop = loop
        self._factor = 2.0 if backoff else 1.0
        self._retry_at: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self.progress_at = 0.0
        """When rows were last written to an output, or a receiver said that it starts; monotonic seconds."""

    @property
    def failing(self) -> bool:
        """Whether an output waits for its next attempt."""
        return bool(self._retry_at)

    def is_waiting(self, output: Output) -> bool:
        """Whether the next attempt at an output is not due yet."""
        if self._retry_at.get(output.id, 0.0) > time.monotonic():
            return True
        self._retry_at.pop(output.id, None)
        return False

    def add(self, output: Output, name: str, message: str, *, retry_after: float = 0.0, starting: bool = False) -> None:
        """Record a failed attempt; the next one is at least `retry_after` seconds later."""
        if starting:
            self.progress_at = time.monotonic()
        failures = self._failures[output.id] = self._failures.get(output.id, 0) + 1
        delay = min(MAX_BACKOFF_SECONDS, RETRY_SECONDS * self._factor ** (failures - 1))
        self._retry_at[output.id] = time.monotonic() + max(delay, retry_after)
        self.report(f"{name}: {message}")
        if output.error != (text := message[:_ERROR_CHARACTERS]):
            self._set_errors([output], text)

    def clear(self, written: Iterable[Output]) -> None:
        """Forget the failures of outputs that were written."""
        self.progress_at = time.monotonic()
        self._set_errors([o for o in written if self._failures.pop(o.id, None) or o.error], None)

    def begin_drain(self) -> None:
        """Make the next attempt at every output due, and wait less from now on: the loop ends soon."""
        self._factor = 1.0
        self._retry_at = dict.fromkeys(self._retry_at, 0.0)

    def report(self, problem: str) -> None:
        """Show a problem in the beat; log it once."""
        if problem != self._loop.monitor.problem:
            _log.warning("%s; retrying", problem)
        self._loop.monitor.problem = problem

    def _set_errors(self, changed: list[Output], text: str | None) -> None:
        if changed:
            with contextlib.suppress(DatabaseBusy, StorageError), self._loop.db.transaction():
                for output in changed:
                    outputs.set_error(self._loop.db, output.id, text)


class Turns(Protocol):
    """A loop, turn by turn."""

    def run_turn(self) -> TurnResult:
        """Do the next part of the work. Raises DatabaseBusy, SupervisorGone, Fenced."""


def run_turns(turns: Turns, retries: OutputRetries, loop: LoopContext) -> None:
    """Write until drained or stopped. Raises Fenced if another appender has taken over."""
    monitor, stop = loop.monitor, loop.stop
    idle, patience, was_draining = IDLE_MIN_SECONDS, _Patience(loop.give_up_seconds), False
    while not stop.supervisor_gone:
        monitor.tick()
        if stop.draining and not was_draining:
            was_draining, patience = True, _Patience(loop.give_up_seconds)
            retries.begin_drain()
        try:
            turn = turns.run_turn()
        except DatabaseBusy as busy:
            retries.report(busy.message)
            monitor.pause(RETRY_SECONDS)
            continue
        except SupervisorGone:
            return
        if not retries.failing:
            monitor.problem = ""
        if turn is TurnResult.IDLE and stop.draining:
            return
        if (
            patience.is_over(failing=retries.failing, progress_at=retries.progress_at)
            and stop.draining
            and turn is TurnResult.BLOCKED
        ):
            return
        monitor.state = "DONE" if turn is TurnResult.IDLE else "READY"
        if turn is TurnResult.IDLE or turn is TurnResult.BLOCKED:
            monitor.pause(idle)
            idle = min(IDLE_MAX_SECONDS, idle * 1.2)
            continue
        idle = IDLE_MIN_SECONDS
        if turn is TurnResult.WROTE and not stop.draining:
            monitor.pause(FLUSH_SECONDS)


class _Patience(Struct):
    """Ends when outputs have failed for some seconds without progress: the next run writes their rows."""

    seconds: float
    _failing_since: float | None = None

    def is_over(self, *, failing: bool, progress_at: float) -> bool:
        """Whether outputs have failed for so long.

        `failing`: whether one fails now. `progress_at`: of `OutputRetries`.
        """
        if not failing:
            self._failing_since = None
            return False
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        return time.monotonic() - max(self._failing_since, progress_at) >= self.seconds
