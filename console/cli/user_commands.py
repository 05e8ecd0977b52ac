"""Runs the commands of the settings `on_end` and `on_alarm`; their failures do not change the run."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from console.cli.output import write_stderr
from engine.model.run import Alarm
from engine.processes.user_command import TIMEOUT_SECONDS, UserCommand

_POLL_SECONDS = 0.02
_CHECK_SECONDS = 2.0
_FORGET_SECONDS = 60.0
"""A cause that ended less than this ago is not new: a host that backs off repeatedly is one alarm."""
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


class AlarmCommand:
    """Runs the command of `on_alarm` for new alarms, one process after another. `check` never waits for it."""

    def __init__(self, command: Sequence[str], data: Path, run_id: str) -> None:
        self._command = command
        self._data = data
        self._run_id = run_id
        self._next_check = 0.0
        self._seen_at: dict[str, float] = {}
        self._pending: list[Alarm] = []
        self._process: UserCommand | None = None

    def check(self, alarms: Sequence[Alarm]) -> None:
        """Look for new ones among the current alarms, every two seconds."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + _CHECK_SECONDS
            self._seen_at = {key: at for key, at in self._seen_at.items() if now - at < _FORGET_SECONDS}
            new = [alarm for alarm in alarms if alarm.key not in self._seen_at]
            self._seen_at |= {alarm.key: now for alarm in alarms}
            self._pending = [*self._pending, *new][-_MAX_PENDING:]
        self._work_pending()

    def stop(self, alarms: Sequence[Alarm]) -> None:
        """Run the command for the last alarms; it is killed after a few seconds."""
        self._next_check = 0.0
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
                write_stderr(self._process.failure)
            self._process = None
        if self._process is None and self._pending:
            items = [{"level": alarm.level, "key": alarm.key, **alarm.as_dict()} for alarm in self._pending]
            text = orjson.dumps({"run": self._run_id, "alarms": items}).decode()
            self._pending = []
            self._process = UserCommand("on_alarm", self._command, text, self._data)
