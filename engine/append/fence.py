"""Keeps an appender whose epoch is over from writing anything."""

import contextlib
from collections.abc import Iterator

from engine.errors import Fenced
from engine.store.db.connector import Database
from engine.store.tables import nodes


class Fence:
    """The fence of one appender epoch, for one database connection."""

    def __init__(self, db: Database, epoch: int) -> None:
        self._db = db
        self._epoch = epoch

    def check(self) -> None:
        """Raise Fenced if another appender has taken over."""
        if not nodes.is_appender_alive(self._db, self._epoch):
            raise Fenced(f"appender {self._epoch}: its epoch has ended", "Another appender writes the rows.")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One write transaction of this epoch. Raises Fenced."""
        with self._db.transaction():
            self.check()
            yield
