"""Pauses intake while the disk or the data dir is full, and resumes it when there is space again.

The alarm is kept in memory and in the supervisor's own beat file, because the database may be full too. It is written
to the tables as soon as they accept writes.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_engine.errors import StorageError
from crawl_engine.model.output_type import is_object
from crawl_engine.runtime.beat_file import SUPERVISOR_BEAT, Beat, BeatWriter
from crawl_engine.runtime.disk_space import DiskSpaceMonitor, data_paths
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.file_header import CRAWL, LOCK_NAME, PAGES
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import events, runs
from crawl_engine.store.tables.run.events import Event
from crawl_engine.supervise.run_context import RunContext

if TYPE_CHECKING:
    from crawl_engine.supervise.retention.data_limit import DataLimit

_CHECK_SECONDS = 1.0


class DiskGuard:
    """Checks the disk once a second. `alarm` names what is full; otherwise it is empty."""

    def __init__(self, run: RunContext, limit: "DataLimit | None" = None) -> None:
        """`limit`: of the data dir, if it has one."""
        folder = run.folder
        self._run = run
        self._databases = {folder / name: _inode_of(folder / name) for name in (CRAWL, PAGES)}
        self._lock_path = folder / LOCK_NAME
        self._lock_inode = _inode_of(self._lock_path)
        self._space = DiskSpaceMonitor(data_paths(folder), run.settings.min_free)
        self._limit = limit
        self._pending_events: list[Event] = []
        self._recorded_alarm = ""
        self._is_full = False
        self._checked_at = self._attempted_at = 0.0
        self.tick_seconds = 0.0
        """How long the supervisor's last tick took, for its beat."""
        self._beat_number = 0
        self._beat_writer: BeatWriter | None = None
        self._beat_path = folder / "beats" / SUPERVISOR_BEAT
        self._create_beat()

    @property
    def alarm(self) -> str:
        """The nearly full disk or the full data dir, as a sentence for the operator, or an empty text."""
        return self._space.alarm or (self._limit.alarm if self._limit is not None else "")

    @property
    def dead_end(self) -> str:
        """Why the run cannot go on by itself, or an empty text."""
        return self._limit.dead_end if self._limit is not None else ""

    def check(self) -> None:
        """Check if a second has passed; uses no database.

        Raises StorageError if a database was deleted or replaced, or another supervisor has a lock of its own.
        """
        if self._limit is not None:
            self._limit.check()
        now = time.monotonic()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        self.check_databases()
        if _inode_of(self._lock_path) not in (None, self._lock_inode):
            raise StorageError(
                f"{self._lock_path}: deleted while a run was writing here, and another supervisor has started",
                "This one was stopped. Never delete the lock: it ends with its process.",
            )
        self._space.is_low()
        if bool(self.alarm) is not self._is_full:
            self._is_full = not self._is_full
            self._pending_events.append(_alarm_event(self.alarm))
        self._write_beat()

    def check_databases(self) -> None:
        """Raise StorageError if a database was deleted or replaced."""
        for path, inode in self._databases.items():
            if _inode_of(path) != inode:
                raise StorageError(
                    f"{path}: deleted or replaced while a run was writing it",
                    "The run was stopped. Restore the data directory, or start in another one.",
                )

    def record(self) -> None:
        """Write a changed alarm to the tables; if they are busy, retry once a second."""
        now = time.monotonic()
        if now - self._attempted_at < _CHECK_SECONDS:
            return
        self._attempted_at = now
        with contextlib.suppress(DatabaseBusy):
            files = [
                Path(output.path)
                for output in outputs.list_outputs(self._run.db, self._run.seq)
                if output.path and not is_object(output.path)
            ]
            self._space.add_paths(path.parent for path in files)
            if self._pending_events or bool(self.alarm) != bool(self._recorded_alarm):
                with self._run.db.transaction():
                    runs.hold_for_disk(self._run.db, self._run.seq, bool(self.alarm))
                    events.add(self._run.db, self._run.seq, self._pending_events)
                self._pending_events, self._recorded_alarm = [], self.alarm

    def close(self) -> None:
        """Remove the beat file at the end of the run; safe to repeat."""
        writer, self._beat_writer = self._beat_writer, None
        if writer is not None:
            writer.close()
        self._beat_path.unlink(missing_ok=True)

    def _create_beat(self) -> None:
        with contextlib.suppress(OSError):  # on a full disk, the next check tries again
            self._beat_writer = BeatWriter(self._beat_path)

    def _write_beat(self) -> None:
        self._beat_number += 1
        if self._beat_writer is None:
            self._create_beat()
        with contextlib.suppress(OSError):
            if self._beat_writer is not None:
                self._beat_writer.write(
                    Beat(number=self._beat_number, state="READY", lag=self.tick_seconds, now=self.alarm)
                )


def _alarm_event(alarm: str) -> Event:
    if alarm:
        return Event(time.time(), "ERROR", "supervisor", "disk", alarm)
    return Event(time.time(), "INFO", "supervisor", "disk", "there is space again: the run resumes")


def _inode_of(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return None
