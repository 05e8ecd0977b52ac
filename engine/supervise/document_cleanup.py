"""Deletes the stored pages of groups with `documents: false`, when their run has ended."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import CrawlError
from engine.store.db.connector import Database
from engine.store.pages import temporary
from engine.store.pages.documents import PageStore

_SECONDS = 10.0
"""How long the end of a run may take for it; the next start does the rest."""
_BUSY_SECONDS = 0.5


def delete_documents(db: Database, folder: Path, cancelled: Callable[[], bool]) -> None:
    """Delete bodies that the ended run no longer needs, for a limited time; the next start deletes the rest."""
    deadline = time.monotonic() + _SECONDS
    with contextlib.suppress(CrawlError):
        if temporary.has_any(db):
            with contextlib.closing(PageStore(folder, busy_seconds=_BUSY_SECONDS)) as pages:
                temporary.delete_ended(db, pages, stop=lambda: cancelled() or time.monotonic() > deadline)
