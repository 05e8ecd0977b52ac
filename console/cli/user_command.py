"""Runs a command of the user: that of the setting `on_end` or `on_alarm`.

Its failure changes neither the run nor the exit code. Its output goes to its own log file.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

TIMEOUT_SECONDS = 60.0
"""The time limit of the command."""
_POLL_SECONDS = 0.02


def run_user_command(
    setting: str,
    command: Sequence[str],
    text: str,
    data: Path,
    *,
    interrupted: Callable[[], bool],
    seconds: float = TIMEOUT_SECONDS,
) -> str | None:
    """Run the command with the text on its stdin; returns its failure, or None. Raises nothing.

    `setting`: its name, and that of the log. `interrupted`: polled; when true, the command is killed.
    """
    try:
        logs = data / "logs"
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(logs / f"{setting}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as log, tempfile.TemporaryFile() as stdin:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n".encode("utf-8", "replace"))
            log.flush()
            stdin.write(text.encode() + b"\n")
            stdin.seek(0)
            problem = _wait_for_exit(_spawn(command, stdin, log), interrupted, seconds)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    log_path = data / "logs" / f"{setting}.log"
    return None if problem is None else f"{setting}: {shlex.join(command)}: {problem}; see {log_path}"


def _spawn(command: Sequence[str], stdin: IO[bytes], log: IO[bytes]) -> subprocess.Popen[bytes]:
    # its own session: Ctrl-C does not reach it directly, and its whole process group can be killed
    return subprocess.Popen(list(command), stdin=stdin, stdout=log, stderr=log, start_new_session=True)


def _wait_for_exit(process: subprocess.Popen[bytes], interrupted: Callable[[], bool], seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    try:
        while process.poll() is None:
            if interrupted():
                return "interrupted by a signal"
            if time.monotonic() > deadline:
                return f"killed after {seconds:g} s"
            time.sleep(_POLL_SECONDS)
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    code = process.returncode
    return None if code == 0 else f"killed by signal {-code}" if code < 0 else f"exit code {code}"
