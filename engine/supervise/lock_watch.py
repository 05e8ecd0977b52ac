"""Watches for a blocked database: logs it, and kills a child that holds the write lock too long."""

import logging
import time

from engine.store.db import writer_lock
from engine.store.db.connector import Database
from engine.supervise.nodes.node_pool import NodePool

_log = logging.getLogger(__name__)

_STALL_SECONDS = 10.0
_WARNING_SECONDS = 10.0


class LockWatch:
    """Handles what keeps the supervisor from writing to the database."""

    def __init__(self, db: Database, node_pool: NodePool) -> None:
        self._db = db
        self._node_pool = node_pool
        self._warned_at = -_WARNING_SECONDS

    def warn(self, text: str) -> None:
        """Log a warning, at most one in ten seconds."""
        now = time.monotonic()
        if now - self._warned_at >= _WARNING_SECONDS:
            self._warned_at = now
            _log.warning("%s", text)

    def kill_stalled_writer(self) -> None:
        """While all writers stall, kill the holder of the write lock if it is a child; its peers stay untouched."""
        since = self._db.blocked_since
        if since is None or (stalled := time.monotonic() - since) < _STALL_SECONDS:
            return
        pid = writer_lock.find_writer_pid(self._db.path)
        if pid is not None and not self._node_pool.kill_writer(pid, stalled):
            self.warn(f"process {pid} (not ours) has held the lock on {self._db.path} for {stalled:.0f} s")
