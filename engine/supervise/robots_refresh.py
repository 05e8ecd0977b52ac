"""Asks for each robots.txt again before it is a day old."""

import time

from engine.errors import plural
from engine.store.db.connector import Database
from engine.store.tables.run import events
from engine.store.tables.run.events import Event
from engine.store.transactions import robots

_CHECK_SECONDS = 3600.0
"""Together with `hosts.ROBOTS_MAX_AGE` less than a day."""


class RobotsRefresh:
    """For one run under one supervisor; the start of the run has already asked."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._checked_at = time.monotonic()

    def tick(self) -> None:
        """Once an hour, ask for old files again. Raises DatabaseBusy; the next tick retries."""
        if time.monotonic() - self._checked_at < _CHECK_SECONDS:
            return
        with self._db.transaction():
            count = robots.ask_stale_hosts(self._db, self._run, time.time())
            if count:
                text = f"robots.txt of {plural(count, 'host')} asked for again"
                events.add(self._db, self._run, [Event(time.time(), "INFO", "supervisor", "run", text)])
        self._checked_at = time.monotonic()
