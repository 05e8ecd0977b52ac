"""Retries a call while the database is busy."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from crawl_engine.errors import CrawlError

_T = TypeVar("_T")
_WARN_AFTER_SECONDS = 1.0

_log = logging.getLogger(__name__)


class DatabaseBusy(CrawlError):
    """Another process holds the write lock, or the disk is full: nothing was written, try again later."""


class DiskFull(DatabaseBusy):
    """The disk has no space left for the write."""


def retry_busy(
    work: Callable[[], _T],
    *,
    seconds: float = 60.0,
    pause: float = 0.05,
    cancelled: Callable[[], bool] = lambda: False,
    wait_for_space: bool = True,
) -> _T:
    """Call `work` until it does not raise DatabaseBusy; returns its result.

    Raises the last DatabaseBusy after `seconds` and once `cancelled` returns True. `wait_for_space`: False raises
    DiskFull at once.
    """
    started, warned = time.monotonic(), False
    while True:
        try:
            return work()
        except DatabaseBusy as busy:
            waited = time.monotonic() - started
            if waited >= seconds or cancelled() or (isinstance(busy, DiskFull) and not wait_for_space):
                raise
            if waited > _WARN_AFTER_SECONDS and not warned:
                warned = True
                _log.warning("%s; waiting for it", busy.message)
        time.sleep(pause)
