"""Runs the command of the setting `on_alarm` for each new alarm of a headless run; the console has no part in it."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from console.cli.user_command import run_user_command
from console.reports.alarms import Alarm, current_alarms
from engine.errors import CrawlError
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.read import snapshot

_CHECK_SECONDS = 2.0
_FORGET_SECONDS = 60.0
"""A cause that was over for less is not new: a host that backs off again and again is one alarm."""
_STOP_SECONDS = 10.0
_MAX_PENDING = 100


class AlarmCommand:
    """Reads the alarms every two seconds. Commands run one after another on a thread, and never hold up the run."""

    def __init__(self, command: Sequence[str], data: Path, *, warn: Callable[[str], None]) -> None:
        """`warn` is told why a command failed, on the thread."""
        self._command = command
        self._data = data
        self._warn = warn
        self._db: Database | None = None
        self._next_check = 0.0
        self._seen_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._run_id: str | None = None
        self._pending: list[Alarm] = []
        self._wake = threading.Event()
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._work, name="on_alarm", daemon=True)
        self._thread.start()

    def check(self, disk_alarm: str, *, at_once: bool = False) -> None:
        """Run the command if an alarm is new. `disk_alarm`: known even while no table can be written."""
        now = time.monotonic()
        if now < self._next_check and not at_once:
            return
        self._next_check = now + _CHECK_SECONDS
        alarms = self._read_alarms()
        if disk_alarm and not any(alarm.key == "disk" for alarm in alarms):
            alarms.append(Alarm("bad", disk_alarm, "disk"))
        new = [alarm for alarm in alarms if now - self._seen_at.get(alarm.key, -_FORGET_SECONDS) >= _FORGET_SECONDS]
        self._seen_at |= {alarm.key: now for alarm in alarms}
        self._seen_at = {key: at for key, at in self._seen_at.items() if now - at < _FORGET_SECONDS}
        if new:
            with self._lock:
                self._pending = [*self._pending, *new][-_MAX_PENDING:]
            self._wake.set()

    def stop(self, disk_alarm: str) -> None:
        """Tell of the last alarms; a command that still runs has a few seconds, then it is killed."""
        self.check(disk_alarm, at_once=True)
        self._stop_at = time.monotonic() + _STOP_SECONDS
        self._wake.set()
        self._thread.join(_STOP_SECONDS + 1.0)
        if self._db is not None:
            self._db.close()

    def _read_alarms(self) -> list[Alarm]:
        """Those of now; none where they cannot be read."""
        try:
            if self._db is None:
                self._db = Database.open(self._data / CRAWL, read_only=True)
            view = snapshot.read(self._db)
        except CrawlError:
            return []
        self._run_id = view.run.id if view.run is not None else None
        return current_alarms(view, os.getpid())

    def _take_pending(self) -> str | None:
        with self._lock:
            alarms, self._pending = self._pending, []
        if not alarms:
            return None
        items = [{"level": alarm.level, "key": alarm.key, "text": alarm.text} for alarm in alarms]
        return orjson.dumps({"run": self._run_id, "alarms": items}).decode()

    def _is_over(self) -> bool:
        return self._stop_at is not None and time.monotonic() > self._stop_at

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while (text := self._take_pending()) is not None and not self._is_over():
                problem = run_user_command("on_alarm", self._command, text, self._data, interrupted=self._is_over)
                if problem is not None and not self._is_over():
                    self._warn(problem)
            if self._stop_at is not None:
                return
