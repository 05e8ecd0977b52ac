"""The stages of a run: walked through in memory at once, written down as soon as the tables take it."""

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
"""Stages in which nobody is told to stop yet."""

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
"""The way out of each stage once everything is killed."""


class StageTracker:
    """Where a supervisor stands. A database that is busy, or whose disk is full, stops no stage."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._pending: list[tuple[Stage, list[Event]]] = []
        self._attempted_at = 0.0
        self.current = Stage.INIT

    def enter(self, stage: Stage, warning: str = "") -> None:
        """Go on to `stage`; `warning` says why, where that is not as it should be."""
        told = [Event(time.time(), "WARNING", "supervisor", "run", warning)] if warning else []
        self.current = stage
        self._pending.append((stage, told))
        if len(self._pending) == 1:
            self._attempted_at = 0.0  # what could not be written a moment ago is not waited for again
        self.flush()

    def flush(self) -> None:
        """Try, once a second, to write what is not yet written."""
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
        """Write them inside the transaction that is open. Raises Busy; `written` follows the commit."""
        for stage, told in self._pending:
            runs.enter_stage(self._db, self._run, stage)
            events.add(self._db, self._run, told)

    def clear_pending(self) -> None:
        """What `write_now` wrote is committed."""
        self._pending.clear()
