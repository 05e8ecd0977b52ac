"""Patience: a thing that must be done, while the database is busy again and again."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from engine.errors import StorageError
from engine.store.db.connector import DatabaseBusy, DiskFull

_T = TypeVar("_T")
_RETRY_SECONDS = 0.05
_WARN_AFTER_SECONDS = 1.0

_log = logging.getLogger(__name__)


def retry_busy_or_fail(
    work: Callable[[], _T], seconds: float = 90.0, is_cancelled: Callable[[], bool] = lambda: False
) -> _T:
    """What `work` returns, once it is not Busy.

    Raises StorageError after `seconds`, when `given_up` says so, and at once where the disk is full.
    """
    began, told = time.monotonic(), False
    while True:
        try:
            return work()
        except DatabaseBusy as busy:
            waited = time.monotonic() - began
            if waited > seconds or is_cancelled() or isinstance(busy, DiskFull):
                raise StorageError(busy.message, busy.remedy) from busy
            if waited > _WARN_AFTER_SECONDS and not told:
                told = True
                _log.warning("%s; waiting for it", busy.message)
            time.sleep(_RETRY_SECONDS)
