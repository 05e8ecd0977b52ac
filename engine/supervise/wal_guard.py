"""Keeps write-ahead logs small: empties one that overlapping readers and writers never let SQLite restart."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from engine.errors import CrawlError
from engine.store.db.connector import Database

MAX_WAL_BYTES = 16_000_000
"""SQLite starts a log again at 4 MB, but only at a moment at which nobody reads; seeding beside nodes has none."""
_BUSY_SECONDS = 0.1
_RETRY_SECONDS = 0.25
_WARN_BYTES = 256_000_000

_log = logging.getLogger(__name__)


class WalGuard:
    """Watches the logs of some databases of this program. Call `check` at each tick, after they are known to exist."""

    def __init__(self, databases: Sequence[Path], max_bytes: int = MAX_WAL_BYTES) -> None:
        self._logs = [(path, path.with_name(f"{path.name}-wal")) for path in databases]
        self._max_bytes = max_bytes
        self._retry_at = 0.0
        self._warned = False

    def check(self) -> None:
        """Empty each log that is too large: new writers wait up to 0.1 s until those who read have finished."""
        now = time.monotonic()
        if now < self._retry_at:
            return
        for database, log in self._logs:
            size = _size_of(log)
            if size > self._max_bytes and not self._empty(database):
                self._retry_at = now + _RETRY_SECONDS
                if size > _WARN_BYTES and not self._warned:
                    self._warned = True
                    _log.warning("%s: %.0f MB, because a process has been reading for a long time", log, size / 1e6)

    def _empty(self, path: Path) -> bool:
        try:
            database = Database.open(path, busy_seconds=_BUSY_SECONDS)
            try:
                return database.checkpoint(_BUSY_SECONDS)
            finally:
                database.close()
        except CrawlError:
            return False  # what is wrong shows at the next write


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
