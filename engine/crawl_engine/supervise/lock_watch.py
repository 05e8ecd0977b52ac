"""Watches for a blocked database: logs it, and kills a child that holds the write lock too long."""

import logging
import time
from pathlib import Path

from msgspec import Struct

from crawl_engine.store.db.connector import Database
from crawl_engine.supervise.nodes.node_pool import NodePool

_log = logging.getLogger(__name__)

_STALL_SECONDS = 10.0
_WARNING_SECONDS = 10.0
_HELD_SECONDS = 1.0
"""A process that holds the lock in all looks of so long has stalled."""
_LOCKS = Path("/proc/locks")
_WAL_WRITE_LOCK = "120"
"""The byte of the -shm file that a writer locks in WAL mode (SQLite's walformat: WAL_WRITE_LOCK)."""


class LockWatch(Struct):
    """Handles writers that keep the supervisor from writing to the database."""

    db: Database
    node_pool: NodePool
    _warned_at: float = -_WARNING_SECONDS
    _seen: tuple[int | None, float] = (None, 0.0)
    """The holder of the write lock, and since when each look has found it."""

    def warn(self, text: str) -> None:
        """Log a warning, at most one in ten seconds."""
        now = time.monotonic()
        if now - self._warned_at >= _WARNING_SECONDS:
            self._warned_at = now
            _log.warning("%s", text)

    def kill_stalled_writer(self) -> None:
        """While all writers stall, kill the holder of the write lock if it is a child; its peers stay untouched."""
        since = self.db.blocked_since
        if since is None or (stalled := time.monotonic() - since) < _STALL_SECONDS:
            return
        pid = find_writer_pid(self.db.path)
        if pid != self._seen[0]:
            self._seen = pid, time.monotonic()
        if time.monotonic() - self._seen[1] < _HELD_SECONDS:  # it may have taken the lock only now
            return
        if pid is not None and not self.node_pool.kill_writer(pid, stalled):
            self.warn(f"process {pid} (not ours) has held the lock on {self.db.path} for {stalled:.0f} s")


def find_writer_pid(database: Path) -> int | None:
    """The pid of the process that writes to a database now; None if no process does, or without /proc/locks."""
    try:
        inode = str(Path(f"{database}-shm").stat().st_ino)
        locks = _LOCKS.read_text("ascii", "replace")
    except OSError:
        return None
    for line in locks.splitlines():
        # 12: POSIX  ADVISORY  WRITE 4121 08:01:131074 120 120
        parts = line.split()
        if (
            len(parts) == 8
            and parts[3] == "WRITE"
            and parts[6] == _WAL_WRITE_LOCK
            and parts[5].rpartition(":")[2] == inode
        ):
            return int(parts[4])
    return None
