"""The disk, as the supervisor sees it: intake pauses while it is nearly full, and goes on by itself.

The alarm stands in memory and in a beat of the supervisor's own, because the database may be full too; in the tables
it is written as soon as they take it.
"""

import contextlib
import os
import time
from pathlib import Path

from engine.errors import StorageError
from engine.runtime.beat_file import SUPERVISOR, Beat, BeatWriter
from engine.runtime.disk_space import Space, data_places
from engine.store.db.connector import Busy, Database
from engine.store.db.schema import CRAWL, PAGES
from engine.store.tables import events, outputs, runs
from engine.store.tables.events import Event

_EVERY = 1.0


class Disk:
    """Looks once a second; `alarm` says what is nearly full, empty where nothing is."""

    def __init__(self, db: Database, folder: Path, run: int, least: int) -> None:
        self._db = db
        self._run = run
        self._databases = {folder / name: _inode(folder / name) for name in (CRAWL, PAGES)}
        self._space = Space(data_places(folder), least)
        self._untold: list[Event] = []
        self._written = ""
        self._looked_at = self._tried_at = 0.0
        self._beats = 0
        self._beat: BeatWriter | None = None
        self._beat_path = folder / "beats" / SUPERVISOR
        with contextlib.suppress(OSError):
            self._beat = BeatWriter(self._beat_path)

    @property
    def alarm(self) -> str:
        """What is nearly full, for an operator to read."""
        return self._space.alarm

    def look(self) -> None:
        """Look, if it is time to; needs no database. Raises StorageError where a database was taken away."""
        now = time.monotonic()
        if now - self._looked_at < _EVERY:
            return
        self._looked_at = now
        for path, inode in self._databases.items():
            if _inode(path) != inode:
                raise StorageError(
                    f"{path}: deleted or replaced while a run was writing it",
                    "The run was stopped. Put the data directory back, or begin anew in another one.",
                )
        before = self._space.alarm
        low = self._space.low()
        if low != bool(before):
            self._untold.append(_event(self._space.alarm))
        self._say()

    def note(self) -> None:
        """Write into the tables what is new. Where they cannot be written it is tried again, once a second."""
        now = time.monotonic()
        if now - self._tried_at < _EVERY:
            return
        self._tried_at = now
        with contextlib.suppress(Busy):
            self._space.watch(Path(output.path).parent for output in outputs.listed(self._db, self._run))
            if self._untold or bool(self.alarm) != bool(self._written):
                with self._db.transaction():
                    runs.hold_for_disk(self._db, self._run, bool(self.alarm))
                    events.add(self._db, self._run, self._untold)
                self._untold, self._written = [], self.alarm

    def close(self) -> None:
        """The run is over: nobody looks any more."""
        if self._beat is not None:
            self._beat.close()
        self._beat_path.unlink(missing_ok=True)

    def _say(self) -> None:
        self._beats += 1
        with contextlib.suppress(OSError):
            if self._beat is not None:
                self._beat.write(Beat(number=self._beats, state="READY", now=self.alarm))


def _event(alarm: str) -> Event:
    if alarm:
        return Event(time.time(), "ERROR", "supervisor", "disk", alarm)
    return Event(time.time(), "INFO", "supervisor", "disk", "there is space on the disk again: the run goes on")


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return None
