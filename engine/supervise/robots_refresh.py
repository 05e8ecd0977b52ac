"""Asks for each robots.txt again before it is a day old."""

import time

from msgspec import Struct, field

from engine.errors import plural
from engine.store.transactions import robots
from engine.supervise.run_context import RunContext

_CHECK_SECONDS = 3600.0
"""Together with `hosts.ROBOTS_MAX_AGE` less than a day."""


class RobotsRefresh(Struct):
    """For one run under one supervisor; the start of the run has already asked."""

    run: RunContext
    _checked_at: float = field(default_factory=time.monotonic)

    def tick(self) -> None:
        """Once an hour, ask for old files again. Raises DatabaseBusy; the next tick retries."""
        if time.monotonic() - self._checked_at < _CHECK_SECONDS:
            return
        with self.run.db.transaction():
            count = robots.ask_stale_hosts(self.run.db, self.run.seq, time.time())
            if count:
                self.run.log("INFO", "run", f"robots.txt of {plural(count, 'host')} asked for again")
        self._checked_at = time.monotonic()
