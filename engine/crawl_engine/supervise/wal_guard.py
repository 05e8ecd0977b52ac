"""Keeps write-ahead logs small: empties one that readers and writers never let SQLite restart."""

import logging
import time
from pathlib import Path

from msgspec import Struct

from crawl_engine.errors import CrawlError
from crawl_engine.store.db.sqlite import SqliteDatabase

MAX_WAL_BYTES = 16_000_000
"""SQLite restarts its log only at a moment without readers; seeding beside nodes never has one."""
HOLD_BYTES = 32_000_000
"""Seeding waits while a log is larger: it writes faster than anything else."""
_BUSY_SECONDS = 0.1
_FIRST_PAUSE, _FULL_PAUSE, _LONGEST_PAUSE = 0.25, 1.0, 10.0
"""Seconds between two attempts: the pause doubles while they fail, since writers wait during each of them.
A log that holds up seeding is tried once a second."""

_log = logging.getLogger(__name__)


class WalGuard(Struct):
    """Watches the log of one database of this program. Call `check` at each tick, once the database exists."""

    database: Path
    max_bytes: int = MAX_WAL_BYTES
    hold_bytes: int = HOLD_BYTES
    _pause: float = _FIRST_PAUSE
    _retry_at: float = 0.0
    _warned: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the log is so large that seeding must wait."""
        return self._size() > self.hold_bytes

    @property
    def _log_path(self) -> Path:
        return self.database.with_name(f"{self.database.name}-wal")

    def check(self) -> None:
        """Empty the log if it is too large and an attempt is due: new writers wait up to 0.1 s for the readers."""
        now = time.monotonic()
        if now < self._retry_at:
            return
        size = self._size()
        if size <= self.max_bytes or self._empty():
            self._pause = _FIRST_PAUSE
            return
        self._retry_at = now + (min(self._pause, _FULL_PAUSE) if size > self.hold_bytes else self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if size > self.hold_bytes and self._pause == _LONGEST_PAUSE and not self._warned:
            self._warned = True
            _log.warning(
                "%s: %.0f MB, because a process has been reading for a long time; seeding waits for its end",
                self._log_path, size / 1e6,
            )  # fmt: skip

    def _size(self) -> int:
        try:
            return self._log_path.stat().st_size
        except OSError:
            return 0

    def _empty(self) -> bool:
        try:
            database = SqliteDatabase.open(self.database, busy_seconds=_BUSY_SECONDS)
            try:
                return database.checkpoint(_BUSY_SECONDS)
            finally:
                database.close()
        except CrawlError:
            return False  # the next write reports it
