"""Ring repair and due clocks: what nodes forgot, lost or took with them into death is rung again."""

import logging
from pathlib import Path

from engine.errors import StorageError
from engine.queue import Doorbells, discard_queue
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.tables import jobs, sequences

_log = logging.getLogger(__name__)

_REPAIR_SECONDS = 0.5
_LOST_SECONDS = 15.0
"""Seconds after which a ring is repeated even though the queue holds others: it may lie among them."""
_LATE_SECONDS = 0.05


class QueueMaintainer:
    """The supervisor's hand on the queue."""

    def __init__(self, db: Database, folder: Path, run: int) -> None:
        self._db = db
        self._folder = folder
        self._run = run
        self._doorbells = self._open_queue()
        self._repaired_at = 0.0

    def ring(self, listed: list[int]) -> None:
        """Ring sequences, after the commit that marked them."""
        if listed:
            self._doorbells.ring(listed)

    def tick(self) -> None:
        """One look. Raises Busy where the database is; the next look makes it good."""
        now = boottime()
        due = jobs.next_due(self._db, self._run)
        late = due is not None and due + _LATE_SECONDS <= now
        if not late and now - self._repaired_at < _REPAIR_SECONDS:
            return
        self._repaired_at = now
        waiting = self._doorbells.has_pending()
        if waiting is None:
            self._recreate_queue()
        lost_before = now - (_LOST_SECONDS if waiting else _REPAIR_SECONDS)
        with self._db.transaction():
            if late:
                jobs.promote(self._db, self._run, now)
            rung = sequences.ring_lost(self._db, self._run, lost_before, now)
            rung += sequences.ring_all(self._db, self._run, now)
        self.ring(rung)

    def _recreate_queue(self) -> None:
        _log.warning("queue.db is missing or damaged; it is made anew")
        self._doorbells.close()
        try:
            self._doorbells = self._open_queue()
        except (StorageError, OSError) as error:  # on a full disk, say: the next look tries again
            raise DatabaseBusy(str(error)) from error
        with self._db.transaction():
            sequences.clear_rings(self._db, self._run)

    def close(self) -> None:
        """Close the queue."""
        self._doorbells.close()

    def _open_queue(self) -> Doorbells:
        discard_queue(self._folder)
        return Doorbells(self._folder)
