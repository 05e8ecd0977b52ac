"""Keeps a run in sync with the defs: reloads, reseeds, re-extracts."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from crawl_engine.store.read import stale_pages
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.supervise.reload.reloader import Reloader
from crawl_engine.supervise.reload.stale_page_scan import ReextractionPlanner
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.seeding.seeder import Seeder


class DefsSync(Struct, kw_only=True):
    """The defs sync of one run. Methods raise DatabaseBusy; the next tick retries."""

    run: RunContext
    ring: Callable[[list[int]], None]
    reloader: Reloader | None
    """None: the defs are not watched."""
    planner: ReextractionPlanner
    extract_only: bool
    """Whether nothing is fetched."""
    notices: Sequence[str]
    """News for the operator at the start, such as changed defs or lost pages."""
    _started: bool = False

    @property
    def done(self) -> bool:
        """Whether no stale page and no job of a changed group remains."""
        return self.planner.done

    def tick(self, seeder: Seeder) -> Seeder:
        """Publish saved defs and continue the work that follows; returns the current seeder."""
        if self.reloader is not None:
            if not self._started:
                self._started = True
                self.reloader.watcher.start()
            new = self.reloader.tick()
            if new is not None:
                seeder = Seeder(self.run, *new, seeder)
        self.ring(self.planner.step())
        return seeder

    def has_open_work(self) -> bool:
        """Whether work remains; with `extract_only`, whether re-extraction remains."""
        if not self.planner.done:
            return True
        return (stale_pages.has_open_extracts if self.extract_only else jobs.has_open_jobs)(self.run.db, self.run.seq)

    def is_settled(self) -> bool:
        """Whether the defs on disk are in force or were rejected. Reads all files of the defs."""
        return self.reloader is None or self.reloader.is_settled()

    def incomplete_reason(self) -> str | None:
        """Why a run is not complete: open work, or rows missing in a file. None if it is complete."""
        if self.has_open_work():
            return "the nodes stopped before all work was done"
        backlog = outputs.find_backlog(self.run.db, self.run.seq, rows.last_id(self.run.db, self.run.seq))
        if backlog is None:
            return None
        name, error = backlog
        return f"the output {name} lacks rows: {error or 'see data/logs/appender.log'}"

    def has_work_left(self) -> bool:
        """Whether an extract-only run leaves jobs for the next run."""
        return self.extract_only and jobs.has_open_jobs(self.run.db, self.run.seq)

    @property
    def extracted_nothing(self) -> bool:
        """Whether an extract-only run could re-extract none of the pages that are not up to date."""
        return self.extract_only and self.planner.gave_nothing

    def stop(self) -> None:
        if self.reloader is not None and self._started:
            self.reloader.watcher.stop()
