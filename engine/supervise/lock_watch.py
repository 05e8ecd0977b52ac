"""Trouble with the database: told now and then, and ended where one of our own processes is its cause."""

import logging
import time

from engine.store.db import writer_lock
from engine.store.db.connector import Database
from engine.supervise.node_pool import NodePool

_log = logging.getLogger(__name__)

_STALL_SECONDS = 10.0
_WARNING_SECONDS = 10.0


class LockWatch:
    """What keeps a supervisor from writing."""

    def __init__(self, db: Database, crew: NodePool) -> None:
        self._db = db
        self._node_pool = crew
        self._warned_at = -_WARNING_SECONDS

    def warn(self, text: str) -> None:
        """Say it, but not at every tick."""
        now = time.monotonic()
        if now - self._warned_at >= _WARNING_SECONDS:
            self._warned_at = now
            _log.warning("%s", text)

    def kill_stalled_writer(self) -> None:
        """Where all writers stall, who holds the lock is ended if it is ours; nobody blames the others."""
        since = self._db.blocked_since
        if since is None or (stalled := time.monotonic() - since) < _STALL_SECONDS:
            return
        pid = writer_lock.find_writer_pid(self._db.path)
        if pid is not None and not self._node_pool.kill_writer(pid, stalled):
            self.warn(f"process {pid}, which is none of ours, has kept {self._db.path} locked for {stalled:.0f} s")
