"""Trouble with the database: told now and then, and ended where one of our own processes is its cause."""

import logging
import time

from engine.store.db import writer_lock
from engine.store.db.connector import Database
from engine.supervise.node_pool import Crew

_log = logging.getLogger(__name__)

_STALL_SECONDS = 10.0
_SILENT_SECONDS = 10.0


class Trouble:
    """What keeps a supervisor from writing."""

    def __init__(self, db: Database, crew: Crew) -> None:
        self._db = db
        self._crew = crew
        self._told_at = -_SILENT_SECONDS

    def tell(self, text: str) -> None:
        """Say it, but not at every tick."""
        now = time.monotonic()
        if now - self._told_at >= _SILENT_SECONDS:
            self._told_at = now
            _log.warning("%s", text)

    def relieve_writers(self) -> None:
        """Where all writers stall, who holds the lock is ended if it is ours; nobody blames the others."""
        since = self._db.kept_out_since
        if since is None or (stalled := time.monotonic() - since) < _STALL_SECONDS:
            return
        pid = writer_lock.holder(self._db.path)
        if pid is not None and not self._crew.kill_writer(pid, stalled):
            self.tell(f"process {pid}, which is none of ours, has kept {self._db.path} locked for {stalled:.0f} s")
