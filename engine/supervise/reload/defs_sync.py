"""Upkeep: a run is kept to the defs in force, and may not end before it is. The supervisor asks it and ticks it."""

import time
from collections.abc import Callable, Sequence

from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables import jobs, outputs, rows
from engine.supervise.reload.reloader import Reloader
from engine.supervise.reload.stale_page_scan import ReextractionPlanner
from engine.supervise.seeding import Seeder, create_next_seeder


class DefsSync:
    """For one run. Raises Busy where the database is: the next tick makes it good."""

    def __init__(
        self, db: Database, run: int, settings: Settings, ring: Callable[[list[int]], None], *, reloader: Reloader | None,
        extract_only: bool, notices: Sequence[str],
    ) -> None:  # fmt: skip
        """`reload`: None where the defs are not watched. `extract_only`: nothing is fetched.

        `news`: what an operator should know of since the run was last worked, changed defs or lost pages.
        """
        self._db = db
        self._run = run
        self._settings = settings
        self._ring = ring
        self._planner = ReextractionPlanner(db, run)
        self._extract_only = extract_only
        self._started = False
        self.reloader = reloader
        self.notices = notices

    @property
    def done(self) -> bool:
        """Whether all that follows from the defs was given to the nodes, and worked."""
        return self._planner.done

    def tick(self, seeding: Seeder) -> Seeder:
        """Publish what was saved, go on with what follows from it; returns the seeding that is now to be stepped."""
        if self.reloader is not None:
            if not self._started:
                self._started = True
                self.reloader.start()
            new = self.reloader.tick(time.time())
            if new is not None:
                seeding = create_next_seeder(self._db, self._run, *new, self._settings, seeding)
        self._ring(self._planner.step())
        return seeding

    def has_open_work(self) -> bool:
        """Whether work is left: of all kinds, or of re-extraction where nothing else is done."""
        if not self._planner.done:
            return True
        return (stale_pages.has_open_extracts if self._extract_only else jobs.has_open_jobs)(self._db, self._run)

    def is_settled(self) -> bool:
        """Whether what is on disk is in force, or was refused. Reads all files of the defs."""
        return self.reloader is None or self.reloader.is_settled()

    def incomplete_reason(self) -> str | None:
        """Why a run may not be called done: open work, or rows that are in no file."""
        if self.has_open_work():
            return "work was left when the nodes had stopped"
        if outputs.has_backlog(self._db, self._run, rows.last_id(self._db, self._run)):
            return "rows are missing in an output: see data/logs/appender.log"
        return None

    def has_work_left(self) -> bool:
        """Whether something is left for the next run, after nothing was fetched."""
        return self._extract_only and jobs.has_open_jobs(self._db, self._run)

    def request_reload(self) -> None:
        """Look at the defs on disk now."""
        if self.reloader is not None:
            self.reloader.check_now()

    def stop(self) -> None:
        """No more looks."""
        if self.reloader is not None and self._started:
            self.reloader.stop()
