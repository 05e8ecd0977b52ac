"""Opens the log of a process, and sends its output there."""

import contextlib
import os
from pathlib import Path
from typing import IO


def open_log(log: Path) -> IO[bytes]:
    """Open a log for appending; the null device if a full disk refuses a new file."""
    try:
        fd = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    except OSError:
        fd = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(fd, "wb")


def redirect_output(log: Path) -> None:
    """Append what this process writes from now on to a log, which may not exist yet."""
    with contextlib.suppress(OSError), open_log(log) as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
