"""Runs the command of the setting `on_alarm` for each new alarm of a headless run; the console has no part in it."""

import os
import threading
import time
from collections import deque
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


class AlarmCommand:
    """Reads the alarms every two seconds. Commands run one after another on a thread, and never hold up the run."""

    def __init__(self, command: Sequence[str], data: Path, *, warn: Callable[[str], None]) -> None:
        """`warn` is told why a command failed, on the thread."""
        self._command = command
        self._data = data
        self._warn = warn
        self._db: Database | None = None
        self._next_check = 0.0
        self._current: set[str] = set()
        self._queue: deque[str] = deque()
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="on_alarm", daemon=True)
        self._thread.start()

    def check(self, disk_alarm: str) -> None:
        """Run the command if an alarm is new. `disk_alarm`: known even while no table can be written."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        run, alarms = None, []
        try:
            if self._db is None:
                self._db = Database.open(self._data / CRAWL, read_only=True)
            view = snapshot.read(self._db)
            run, alarms = view.run, current_alarms(view, os.getpid())
        except CrawlError:
            if not disk_alarm:
                return
        if disk_alarm and not any(alarm.key == "disk" for alarm in alarms):
            alarms.append(Alarm("bad", disk_alarm, "disk"))
        new = [alarm for alarm in alarms if alarm.key not in self._current]
        self._current = {alarm.key for alarm in alarms}
        if new:
            items = [{"level": alarm.level, "key": alarm.key, "text": alarm.text} for alarm in new]
            self._queue.append(orjson.dumps({"run": run.id if run is not None else None, "alarms": items}).decode())
            self._wake.set()

    def stop(self) -> None:
        """Kill a command that still runs, and run no more."""
        self._stopped = True
        self._wake.set()
        self._thread.join(1.0)
        if self._db is not None:
            self._db.close()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            while self._queue and not self._stopped:
                text = self._queue.popleft()
                problem = run_user_command(
                    "on_alarm", self._command, text, self._data, interrupted=lambda: self._stopped
                )
                if problem is not None and not self._stopped:
                    self._warn(problem)
