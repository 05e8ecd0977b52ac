"""A child process's log on stderr: an identical line is written once in ten seconds."""

import logging
import sys
import time

_DEDUP_SECONDS = 10.0
_MAX_ENTRIES = 200


class DedupFilter(logging.Filter):
    """Drops repeated lines; the next one that passes says how many were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if record.exc_info:
            return True
        try:
            text, now = record.getMessage(), time.monotonic()
        except (TypeError, ValueError):
            return True  # the handler reports what is wrong with the record
        logged_at, dropped = self._logged.get(text, (-_DEDUP_SECONDS, 0))
        if now - logged_at < _DEDUP_SECONDS:
            self._logged[text] = logged_at, dropped + 1
            return False
        if len(self._logged) >= _MAX_ENTRIES:
            self._logged.clear()
        self._logged[text] = now, 0
        if dropped:
            record.msg, record.args = f"{text} (repeated {dropped} times)", ()
        return True


def log_to_stderr() -> None:
    """Write this process's log to stderr, which its supervisor redirects to a file."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(DedupFilter())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", handlers=[handler])
    logging.raiseExceptions = False  # the log's disk may be full, or its reader gone
    logging.getLogger("huey").setLevel(logging.WARNING)


_logged_failures: set[tuple[object, ...]] = set()


def log_exception_once(log: logging.Logger, message: str, error: BaseException) -> None:
    """Log an exception with its traceback, once for each type and line of code that raised it."""
    raised_at = error.__traceback__
    while raised_at is not None and raised_at.tb_next is not None:
        raised_at = raised_at.tb_next
    where = (raised_at.tb_frame.f_code.co_filename, raised_at.tb_lineno) if raised_at is not None else ()
    kind = (log.name, message, type(error), *where)
    if kind not in _logged_failures and len(_logged_failures) < _MAX_ENTRIES:
        _logged_failures.add(kind)
        log.error(message, exc_info=error)
