"""The stages of a run: walked through in memory at once, written down as soon as the tables take it."""

import time

from engine.model.run import Stage
from engine.store.db.connector import Busy, Database
from engine.store.tables import events, runs
from engine.store.tables.events import Event

_EVERY = 1.0

_G = Stage
GOING = (_G.INIT, _G.CHECK_LOCK, _G.START_APPENDER, _G.START_NODES, _G.RUNNING, _G.CRAWL_COMPLETE, _G.INTERRUPTED)
"""Stages in which nobody is told to stop yet."""

FORCED: dict[Stage, Stage] = {
    _G.INIT: _G.CHECK_LOCK,
    _G.CHECK_LOCK: _G.ABORT,
    _G.ABORT: _G.RELEASING_LOCK,
    _G.START_APPENDER: _G.INTERRUPTED,
    _G.START_NODES: _G.INTERRUPTED,
    _G.RUNNING: _G.INTERRUPTED,
    _G.CRAWL_COMPLETE: _G.STOPPING_NODES_FORCEFUL,
    _G.INTERRUPTED: _G.STOPPING_NODES_FORCEFUL,
    _G.STOPPING_NODES_GRACEFUL: _G.STOPPING_NODES_FORCEFUL,
    _G.STOPPING_NODES_FORCEFUL: _G.STOPPING_APPENDER_FORCEFUL,
    _G.STOPPING_APPENDER_GRACEFUL: _G.STOPPING_APPENDER_FORCEFUL,
    _G.STOPPING_APPENDER_FORCEFUL: _G.RELEASING_LOCK,
}
"""The way out of each stage once everything is killed."""


class Stages:
    """Where a supervisor stands. A database that is busy, or whose disk is full, stops no stage."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._unwritten: list[tuple[Stage, list[Event]]] = []
        self._tried_at = 0.0
        self.now = Stage.INIT

    def enter(self, stage: Stage, warning: str = "") -> None:
        """Go on to `stage`; `warning` says why, where that is not as it should be."""
        told = [Event(time.time(), "WARNING", "supervisor", "run", warning)] if warning else []
        self.now = stage
        self._unwritten.append((stage, told))
        if len(self._unwritten) == 1:
            self._tried_at = 0.0  # what could not be written a moment ago is not waited for again
        self.write()

    def write(self) -> None:
        """Try, once a second, to write what is not yet written."""
        if not self._unwritten or time.monotonic() - self._tried_at < _EVERY:
            return
        self._tried_at = time.monotonic()
        try:
            with self._db.transaction():
                self.write_now()
        except Busy:
            self._tried_at = time.monotonic()
            return
        self.written()

    def write_now(self) -> None:
        """Write them inside the transaction that is open. Raises Busy; `written` follows the commit."""
        for stage, told in self._unwritten:
            runs.enter(self._db, self._run, stage)
            events.add(self._db, self._run, told)

    def written(self) -> None:
        """What `write_now` wrote is committed."""
        self._unwritten.clear()
