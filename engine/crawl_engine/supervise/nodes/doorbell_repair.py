"""Repairs the queue: promotes jobs that are due, repeats lost rings, opens a damaged queue again."""

import logging
from collections.abc import Sequence
from pathlib import Path

from crawl_engine.errors import StorageError
from crawl_engine.queue import Doorbells
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.location import read_location
from crawl_engine.store.tables.job import jobs, rings
from crawl_engine.supervise.run_context import RunContext

_log = logging.getLogger(__name__)

_REPAIR_SECONDS = 0.5
_LATE_SECONDS = 0.05


class QueueMaintainer:
    """Keeps the queue consistent with the jobs table, for one supervisor."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._doorbells = _open_queue(run.folder)
        self._repaired_at = 0.0

    def ring(self, rung: Sequence[int]) -> None:
        """Ring if sequences are rung, after the commit that marked them."""
        if rung:
            self._doorbells.ring()

    def tick(self) -> None:
        """Repair due jobs and rings. Raises DatabaseBusy; the next tick retries."""
        now = store_time()
        due = jobs.next_due(self._run.db, self._run.seq)
        late = due is not None and due + _LATE_SECONDS <= now
        if not late and now - self._repaired_at < _REPAIR_SECONDS:
            return
        self._repaired_at = now
        pending = self._doorbells.has_pending()
        if pending is None:
            self._recreate_queue()
        with self._run.db.transaction():
            if late:
                jobs.promote(self._run.db, self._run.seq, now)
            rung = rings.ring_all(self._run.db, self._run.seq, now)
            # another machine may have left a host to this one, and has rung its own nodes alone
            since = now if self._run.db.is_shared else now - _REPAIR_SECONDS
            is_lost = not pending and rings.has_waited(self._run.db, self._run.seq, since)
        if rung or is_lost:
            self._doorbells.ring()

    def _recreate_queue(self) -> None:
        _log.warning("the queue is missing, damaged or out of reach; opening it again")
        self._doorbells.close()
        try:
            self._doorbells = _open_queue(self._run.folder)
        except (StorageError, OSError) as error:  # for example on a full disk: the next tick retries
            raise DatabaseBusy(str(error)) from error
        with self._run.db.transaction():
            rings.clear_rings(self._run.db, self._run.seq)

    def close(self) -> None:
        self._doorbells.close()


def _open_queue(folder: Path) -> Doorbells:
    """An empty queue. Raises StorageError; DatabaseBusy while the server of its database is away."""
    server = read_location(folder)
    try:
        return Doorbells.open_empty(folder, server=server)
    except StorageError as error:
        if server is None:
            raise
        raise DatabaseBusy(error.message) from error
