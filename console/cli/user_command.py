"""Runs a command of the user to its end: that of the setting `on_end` or `on_alarm`.

Its failure changes neither the run nor the exit code. Its output goes to its own log file.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.processes.user_command import TIMEOUT_SECONDS, UserCommand

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
