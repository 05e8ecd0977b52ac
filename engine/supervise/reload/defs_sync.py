"""Upkeep: a run is kept to the defs in force, and may not end before it is. The supervisor asks it and ticks it."""

import time
from collections.abc import Callable, Sequence

from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables import jobs, outputs, rows
from engine.supervise.reload.reloader import Reload
from engine.supervise.reload.stale_page_scan import Renewal
from engine.supervise.seeding import Seeding, follow


class Upkeep:
    """For one run. Raises Busy where the database is: the next tick makes it good."""

    def __init__(
        self, db: Database, run: int, settings: Settings, ring: Callable[[list[int]], None], *, reload: Reload | None,
        extract_only: bool, news: Sequence[str],
    ) -> None:  # fmt: skip
        """`reload`: None where the defs are not watched. `extract_only`: nothing is fetched.

        `news`: what an operator should know of since the run was last worked, changed defs or lost pages.
        """
        self._db = db
        self._run = run
        self._settings = settings
        self._ring = ring
        self._renewal = Renewal(db, run)
        self._extract_only = extract_only
        self._watching = False
        self.reload = reload
        self.news = news

    @property
    def done(self) -> bool:
        """Whether all that follows from the defs was given to the nodes, and worked."""
        return self._renewal.done

    def tick(self, seeding: Seeding) -> Seeding:
        """Publish what was saved, go on with what follows from it; returns the seeding that is now to be stepped."""
        if self.reload is not None:
            if not self._watching:
                self._watching = True
                self.reload.start()
            new = self.reload.tick(time.time())
            if new is not None:
                seeding = follow(self._db, self._run, *new, self._settings, seeding)
        self._ring(self._renewal.step())
        return seeding

    def any_open(self) -> bool:
        """Whether work is left: of all kinds, or of re-extraction where nothing else is done."""
        if not self._renewal.done:
            return True
        return (stale_pages.any_open if self._extract_only else jobs.any_open)(self._db, self._run)

    def settled(self) -> bool:
        """Whether what is on disk is in force, or was refused. Reads all files of the defs."""
        return self.reload is None or self.reload.settled()

    def missing(self) -> str | None:
        """Why a run may not be called done: open work, or rows that are in no file."""
        if self.any_open():
            return "work was left when the nodes had stopped"
        if outputs.any_behind(self._db, self._run, rows.last(self._db, self._run)):
            return "rows are missing in an output: see data/logs/appender.log"
        return None

    def left(self) -> bool:
        """Whether something is left for the next run, after nothing was fetched."""
        return self._extract_only and jobs.any_open(self._db, self._run)

    def ask(self) -> None:
        """Look at the defs on disk now."""
        if self.reload is not None:
            self.reload.ask()

    def stop(self) -> None:
        """No more looks."""
        if self.reload is not None and self._watching:
            self.reload.stop()
