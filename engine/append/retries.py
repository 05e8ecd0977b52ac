"""Outputs that cannot be written now: when each is tried again, and why it failed, in the beat and in the table."""

import contextlib
import logging
import time
from collections.abc import Iterable

from engine.append.stop_signal import Monitor
from engine.errors import StorageError
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.tables import outputs
from engine.store.tables.outputs import Output

RETRY_SECONDS = 1.0
"""Seconds before a failed output is retried."""
MAX_BACKOFF_SECONDS = 30.0
_ERROR_CHARACTERS = 1_000

_log = logging.getLogger("appender")


class OutputRetries:
    """The failed outputs of one loop. `backoff`: each retry of users' classes waits twice as long as the one before."""

    def __init__(self, db: Database, monitor: Monitor, *, backoff: bool = False) -> None:
        self._db = db
        self._monitor = monitor
        self._factor = 2.0 if backoff else 1.0
        self._retry_at: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self.written_at = 0.0
        """When rows were last written to an output; monotonic seconds."""

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

    def add(self, output: Output, name: str, message: str, *, retry_after: float = 0.0) -> None:
        """Record a failed attempt; the next one is at least `retry_after` seconds later."""
        failures = self._failures[output.id] = self._failures.get(output.id, 0) + 1
        delay = min(MAX_BACKOFF_SECONDS, RETRY_SECONDS * self._factor ** (failures - 1))
        self._retry_at[output.id] = time.monotonic() + max(delay, retry_after)
        self.report(f"{name}: {message}")
        if output.error != (text := message[:_ERROR_CHARACTERS]):
            self._set_errors([output], text)

    def clear(self, written: Iterable[Output]) -> None:
        """Forget the failures of outputs that were written."""
        self.written_at = time.monotonic()
        self._set_errors([o for o in written if self._failures.pop(o.id, None) or o.error], None)

    def begin_drain(self) -> None:
        """Make the next attempt at every output due, and wait less from now on: the loop ends soon."""
        self._factor = 1.0
        self._retry_at = dict.fromkeys(self._retry_at, 0.0)

    def report(self, problem: str) -> None:
        """Show a problem in the beat; log it once."""
        if problem != self._monitor.problem:
            _log.warning("%s; retrying", problem)
        self._monitor.problem = problem

    def _set_errors(self, changed: list[Output], text: str | None) -> None:
        if changed:
            with contextlib.suppress(DatabaseBusy, StorageError), self._db.transaction():
                for output in changed:
                    outputs.set_error(self._db, output.id, text)
