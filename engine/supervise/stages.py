"""The stages of a run: they change in memory at once and are written as soon as the database is not busy."""

import time

from engine.model.run import Stage
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.tables import events, runs
from engine.store.tables.events import Event

_RETRY_SECONDS = 1.0

_S = Stage
ACTIVE_STAGES = (
    _S.INIT,
    _S.CHECK_LOCK,
    _S.START_APPENDER,
    _S.START_NODES,
    _S.RUNNING,
    _S.CRAWL_COMPLETE,
    _S.INTERRUPTED,
)
"""Stages in which no process is being stopped yet."""

FORCED_TRANSITIONS: dict[Stage, Stage] = {
    _S.INIT: _S.CHECK_LOCK,
    _S.CHECK_LOCK: _S.ABORT,
    _S.ABORT: _S.RELEASING_LOCK,
    _S.START_APPENDER: _S.INTERRUPTED,
    _S.START_NODES: _S.INTERRUPTED,
    _S.RUNNING: _S.INTERRUPTED,
    _S.CRAWL_COMPLETE: _S.STOPPING_NODES_FORCEFUL,
    _S.INTERRUPTED: _S.STOPPING_NODES_FORCEFUL,
    _S.STOPPING_NODES_GRACEFUL: _S.STOPPING_NODES_FORCEFUL,
    _S.STOPPING_NODES_FORCEFUL: _S.STOPPING_APPENDER_FORCEFUL,
    _S.STOPPING_APPENDER_GRACEFUL: _S.STOPPING_APPENDER_FORCEFUL,
    _S.STOPPING_APPENDER_FORCEFUL: _S.RELEASING_LOCK,
}
"""The next stage on the way to the end of a killed run."""


class StageTracker:
    """The current stage of a supervisor. Neither a busy database nor a full disk delays a stage change."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._pending: list[tuple[Stage, list[Event]]] = []
        self._attempted_at = 0.0
        self.current = Stage.INIT

    def enter(self, stage: Stage, warning: str = "") -> None:
        """Change to `stage`; `warning` explains an irregular change."""
        warnings = [Event(time.time(), "WARNING", "supervisor", "run", warning)] if warning else []
        self.current = stage
        self._pending.append((stage, warnings))
        if len(self._pending) == 1:
            self._attempted_at = 0.0  # an earlier failed attempt does not delay this one
        self.flush()

    def flush(self) -> None:
        """Write pending stages, at most one attempt a second."""
        if not self._pending or time.monotonic() - self._attempted_at < _RETRY_SECONDS:
            return
        self._attempted_at = time.monotonic()
        try:
            with self._db.transaction():
                self.write_pending()
        except DatabaseBusy:
            self._attempted_at = time.monotonic()
            return
        self.clear_pending()

    def write_pending(self) -> None:
        """Write pending stages in the open transaction; call `clear_pending` after the commit. Raises DatabaseBusy."""
        for stage, warnings in self._pending:
            runs.enter_stage(self._db, self._run, stage)
            events.add(self._db, self._run, warnings)

    def clear_pending(self) -> None:
        """Forget stages that `write_pending` wrote, after the commit."""
        self._pending.clear()
