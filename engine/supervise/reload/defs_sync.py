"""Keeps a run in sync with the defs: reloads, reseeds, re-extracts."""

import time
from collections.abc import Callable, Sequence

from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables.job import jobs
from engine.store.tables.output import outputs
from engine.store.tables.row import rows
from engine.supervise.reload.reloader import Reloader
from engine.supervise.reload.stale_page_scan import ReextractionPlanner
from engine.supervise.seeding.seeder import Seeder, create_next_seeder


class DefsSync:
    """The defs sync of one run. Methods raise DatabaseBusy; the next tick retries."""

    def __init__(
        self,
        db: Database,
        run: int,
        settings: Settings,
        ring: Callable[[list[int]], None],
        *,
        reloader: Reloader | None,
        extract_only: bool,
        notices: Sequence[str],
    ) -> None:
        """`reloader`: None if the defs are not watched. `extract_only`: nothing is fetched.

        `notices`: news for the operator at the start, such as changed defs or lost pages.
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
        """Whether no stale page and no job of a changed group remains."""
        return self._planner.done

    def tick(self, seeder: Seeder) -> Seeder:
        """Publish saved defs and continue the work that follows; returns the current seeder."""
        if self.reloader is not None:
            if not self._started:
                self._started = True
                self.reloader.start()
            new = self.reloader.tick(time.time())
            if new is not None:
                seeder = create_next_seeder(self._db, self._run, *new, self._settings, seeder)
        self._ring(self._planner.step())
        return seeder

    def has_open_work(self) -> bool:
        """Whether work remains; with `extract_only`, whether re-extraction remains."""
        if not self._planner.done:
            return True
        return (stale_pages.has_open_extracts if self._extract_only else jobs.has_open_jobs)(self._db, self._run)

    def is_settled(self) -> bool:
        """Whether the defs on disk are in force or were rejected. Reads all files of the defs."""
        return self.reloader is None or self.reloader.is_settled()

    def incomplete_reason(self) -> str | None:
        """Why a run is not complete: open work, or rows missing in a file. None if it is complete."""
        if self.has_open_work():
            return "the nodes stopped before all work was done"
        backlog = outputs.find_backlog(self._db, self._run, rows.last_id(self._db, self._run))
        if backlog is None:
            return None
        name, error = backlog
        return f"the output {name} lacks rows: {error or 'see data/logs/appender.log'}"

    def has_work_left(self) -> bool:
        """Whether an extract-only run leaves jobs for the next run."""
        return self._extract_only and jobs.has_open_jobs(self._db, self._run)

    @property
    def extracted_nothing(self) -> bool:
        """Whether an extract-only run could re-extract none of the pages that are not up to date."""
        return self._extract_only and self._planner.gave_nothing

    def request_reload(self) -> None:
        if self.reloader is not None:
            self.reloader.check_now()

    def stop(self) -> None:
        if self.reloader is not None and self._started:
            self.reloader.stop()
