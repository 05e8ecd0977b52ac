"""Runs the commands of the settings `on_end` and `on_alarm`; their failures do not change the run."""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from crawl_console.alarm_book import AlarmBook
from crawl_console.cli.output import write_stderr
from crawl_engine.errors import CrawlError
from crawl_engine.model.run import Alarm
from crawl_engine.processes.user_command import TIMEOUT_SECONDS, UserCommand
from crawl_engine.store.tables.run.runs import Run

_POLL_SECONDS = 0.02
_STOP_SECONDS = 10.0
_MAX_PENDING = 100


def run_user_command(
    setting: str, command: Sequence[str], text: str, data: Path, *, interrupted: Callable[[], bool],
    seconds: float = TIMEOUT_SECONDS,
) -> str | None:  # fmt: skip
    """Run a command with the text on its stdin; returns why it failed, or None. Raises nothing.

    `setting`: its name, also that of the log. `interrupted`: polled; when true, the command is killed.
    """
    process = UserCommand(setting, command, text, data, seconds=seconds)
    try:
        while not process.has_ended():
            if interrupted():
                process.kill("interrupted by a signal")
            else:
                time.sleep(_POLL_SECONDS)
    finally:
        process.kill("interrupted")
    return process.failure


def report_failure(data: Path, run: int, setting: str, problem: str) -> None:
    """Tell why a command of the user failed: on stderr, and as a warning of the run. Raises nothing."""
    from crawl_engine.store.db.connector import connect
    from crawl_engine.store.db.schema import CRAWL
    from crawl_engine.store.tables.run import runs

    write_stderr(problem)
    with contextlib.suppress(CrawlError), contextlib.closing(connect(data / CRAWL)) as db, db.transaction():
        runs.add_failed_command(db, run, setting, problem)


class AlarmCommand:
    """Runs the command of `on_alarm` for new alarms, one process after another. `check` never waits for it."""

    def __init__(self, command: Sequence[str], data: Path, run: Run) -> None:
        self._command = command
        self._data = data
        self._run = run
        self._alarms = AlarmBook()
        self._pending: list[Alarm] = []
        self._process: UserCommand | None = None

    def check(self, alarms: Sequence[Alarm]) -> None:
        """Take the current alarms."""
        self._pending = [*self._pending, *self._alarms.update(alarms)][-_MAX_PENDING:]
        self._work_pending()

    def stop(self, alarms: Sequence[Alarm]) -> None:
        """Run the command for the last alarms; it is killed after a few seconds."""
        self.check(alarms)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._process is not None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            self._work_pending()
        if self._process is not None:
            self._process.kill("interrupted")

    def _work_pending(self) -> None:
        """Report a command that failed; start the next one if alarms are pending."""
        if self._process is not None and self._process.has_ended():
            if self._process.failure is not None:
                report_failure(self._data, self._run.seq, "on_alarm", self._process.failure)
            self._process = None
        if self._process is None and self._pending:
            items = [{"level": alarm.level, "key": alarm.key, **alarm.as_dict()} for alarm in self._pending]
            text = orjson.dumps({"run": self._run.id, "alarms": items}).decode()
            self._pending = []
            self._process = UserCommand("on_alarm", self._command, text, self._data)
