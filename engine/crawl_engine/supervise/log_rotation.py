"""Limits the size of log files: copies a large log to `NAME.log.1` and truncates it."""

import logging
import os
import re
import time
from pathlib import Path

from msgspec import Struct

from crawl_engine.late_regex import late_regex
from crawl_engine.runtime.private_file import create_draft

_log = logging.getLogger(__name__)

MAX_LOG_BYTES = 10_000_000
"""The size at which a log is rotated. The copy keeps this much of the end, plus at most as much again that was written
during the copy."""
_LOG_NAME = late_regex(
    r"(n\d+|appender|supervisor|on_start|on_end|on_alarm|notify|schedule|helper-[\w-]+)\.log", re.ASCII
)
_CHECK_SECONDS = 1.0
_BLOCK_BYTES = 1 << 20


class LogRotation(Struct):
    """Rotates the logs in one folder. Every writer must append (O_APPEND), so that it continues at the new end.

    Lines that a process writes between the copy and the truncation are lost.
    """

    folder: Path
    max_bytes: int = MAX_LOG_BYTES
    _checked_at: float = -_CHECK_SECONDS
    _failed: set[Path] = set()
    """Logs whose last rotation failed, so that each failure is logged once."""

    def check(self) -> None:
        """Rotate the logs that are too large; at most once a second. A failed rotation is retried."""
        now = time.monotonic()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        failed: set[Path] = set()
        for path in self.folder.glob("*.log"):
            if path.is_symlink() or not _LOG_NAME.fullmatch(path.name):
                continue  # the folder may be a link to one that other programs use
            try:
                if path.stat().st_size > self.max_bytes:
                    self._rotate(path)
            except OSError as error:
                failed.add(path)
                if path not in self._failed:
                    _log.warning("%s: cannot rotate: %s", path, error.strerror)
        self._failed = failed

    def _rotate(self, path: Path) -> None:
        """Keep the last `max_bytes` of the log as `.1`, replacing an older copy."""
        old = path.with_name(f"{path.name}.1")
        temp = path.with_name(f".{path.name}.1.new")
        log = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            start = max(0, os.fstat(log).st_size - self.max_bytes)
            limit = start + 2 * self.max_bytes  # a process that writes faster than the copy must not fill the disk
            with os.fdopen(create_draft(temp), "wb") as copy:
                while block := os.pread(log, min(_BLOCK_BYTES, limit - start), start):
                    start += len(block)
                    copy.write(block)
            temp.replace(old)
            os.ftruncate(log, 0)
        except OSError:
            temp.unlink(missing_ok=True)
            raise
        finally:
            os.close(log)
