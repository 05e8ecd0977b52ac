"""The log of a process, without repeated lines."""

import logging
import os
import sys
import time
from pathlib import Path
from typing import IO

from crawl_engine.runtime.private_file import open_private


def open_log(log: Path) -> IO[bytes]:
    """Open a log for appending; the null device if a full disk refuses a new file, or a link stands there."""
    try:
        fd = open_private(log, os.O_WRONLY | os.O_APPEND)
    except OSError:
        fd = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(fd, "wb")


_DEDUP_SECONDS = 10.0
_MAX_ENTRIES = 200

_Origin = tuple[object, ...]
"""Where an error was raised: its type, file and line."""


class DedupFilter(logging.Filter):
    """Drops repeated lines; the next one that passes says how many were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, _Origin | None], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        try:
            text, now = record.getMessage(), time.monotonic()
        except (TypeError, ValueError):
            return True  # the handler reports a broken record
        line = (text, _raised_at(record.exc_info[1]) if record.exc_info else None)
        logged_at, dropped = self._logged.get(line, (-_DEDUP_SECONDS, 0))
        if now - logged_at < _DEDUP_SECONDS:
            self._logged[line] = logged_at, dropped + 1
            return False
        if len(self._logged) >= _MAX_ENTRIES:
            self._logged.clear()
        self._logged[line] = now, 0
        if dropped:
            record.msg, record.args = f"{text} (repeated {dropped} times)", ()
        return True


def _raised_at(error: BaseException | None) -> _Origin:
    frame = error.__traceback__ if error is not None else None
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return (type(error), *((frame.tb_frame.f_code.co_filename, frame.tb_lineno) if frame is not None else ()))


def log_to_stderr() -> None:
    """Write this process's log to stderr, which its supervisor redirects to a file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(DedupFilter())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", handlers=[handler])
    logging.raiseExceptions = False  # the log's disk may be full, or its reader gone
    for name in ("huey", "httpx", "httpcore"):  # an HTTP client logs each URL, with the secrets of a sender's URL
        logging.getLogger(name).setLevel(logging.WARNING)
