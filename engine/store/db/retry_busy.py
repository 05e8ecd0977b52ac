"""Patience: a thing that must be done, while the database is busy again and again."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from engine.errors import StorageError
from engine.store.db.connector import Busy, DiskFull

_T = TypeVar("_T")
_PAUSE = 0.05
_SILENT = 1.0

_log = logging.getLogger(__name__)


def patient(work: Callable[[], _T], seconds: float = 90.0, given_up: Callable[[], bool] = lambda: False) -> _T:
    """What `work` returns, once it is not Busy.

    Raises StorageError after `seconds`, when `given_up` says so, and at once where the disk is full.
    """
    began, told = time.monotonic(), False
    while True:
        try:
            return work()
        except Busy as busy:
            waited = time.monotonic() - began
            if waited > seconds or given_up() or isinstance(busy, DiskFull):
                raise StorageError(busy.what, busy.remedy) from busy
            if waited > _SILENT and not told:
                told = True
                _log.warning("%s; waiting for it", busy.what)
            time.sleep(_PAUSE)
