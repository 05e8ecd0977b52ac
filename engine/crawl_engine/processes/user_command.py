"""Starts, polls and kills the command of `on_start`, `on_end` or `on_alarm`; logs its output."""

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from crawl_engine.errors import reason_of
from crawl_engine.processes.child import kill_group
from crawl_engine.runtime.private_file import open_private

TIMEOUT_SECONDS = 60.0
"""The time limit of a command."""


class UserCommand:
    """One run of a command, in a session of its own: Ctrl-C does not reach it, and its whole group can be killed."""

    def __init__(
        self, setting: str, command: Sequence[str], text: str, data: Path, *, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Start it with the text on its stdin. Raises nothing. `setting`: its name, and that of the log."""
        self._setting = setting
        self._command = command
        self._log = data / "logs" / f"{setting}.log"
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: str | None = None
        try:
            self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = open_private(self._log, os.O_WRONLY | os.O_APPEND)
            with os.fdopen(handle, "wb") as log, tempfile.TemporaryFile() as stdin:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n".encode("utf-8", "replace"))
                log.flush()
                stdin.write(text.encode() + b"\n")
                stdin.seek(0)
                self._process = subprocess.Popen(
                    list(command), stdin=stdin, stdout=log, stderr=log, start_new_session=True
                )
        except (OSError, ValueError) as error:
            self._problem = reason_of(error)

    @property
    def failure(self) -> str | None:
        """Why it failed; None if it has not."""
        if self._problem is None:
            return None
        return f"{self._setting}: {shlex.join(self._command)}: {self._problem}; see {self._log}"

    def has_ended(self) -> bool:
        """Whether it has ended; kills it if its time is over."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                if time.monotonic() <= self._deadline:
                    return False
                self.kill(f"killed after {self._seconds:g} s")
            elif code != 0:
                self._problem = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            self._process = None
        return True

    def kill(self, reason: str) -> None:
        """Kill it with all its child processes, unless it has ended. `reason`: why it failed."""
        if self._process is not None and self._process.poll() is None:
            kill_group(self._process.pid)
            self._process.wait()
            self._process, self._problem = None, reason
