"""Plans the re-extraction of stale pages after a change of the defs, one batch a tick.

Queues stale pages, skips the jobs of removed groups and of stopped sequences, and requeues those of groups that came
back. The position of the scan is in the run's row and moves in the transaction that queues the pages, so the next
supervisor resumes there.
"""

import time
from collections import Counter

from engine.errors import plural
from engine.model.job import JobKind
from engine.runtime.clock import store_time
from engine.store.db.connector import Database
from engine.store.read import stale_pages
from engine.store.tables.job import extracts, jobs, rings, sequences
from engine.store.tables.job.sequences import UnsettledReason
from engine.store.tables.row import rows
from engine.store.tables.run import events, runs, versions
from engine.store.tables.run.events import Event, Level
from engine.store.tables.run.runs import StaleSearch

GROUP_REMOVED = "its group is not in the defs"
"""The reason of SKIPPED jobs whose group was removed; the group may come back."""
STOPPED = "stopped by an operator"
"""The reason of SKIPPED jobs whose sequence was stopped."""
_SCAN_SIZE = 4000
"""Jobs scanned in one transaction."""
_MAX_QUEUED = 8000
"""Re-extraction jobs that may be queued at a time, so that a million stale pages do not double the jobs table."""
_BATCH_SIZE = 2000


class ReextractionPlanner:
    """The planner of one run. Raises DatabaseBusy; the next step retries."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self.done = False
        """Whether the last step had nothing to do."""
        self.gave_nothing = False
        """Whether the last search found stale pages, and none could be re-extracted."""

    def step(self) -> list[int]:
        """Do one batch of each kind; returns the sequences to ring."""
        unsettled = sequences.list_unsettled(self._db, self._run, 1)
        recorded, _ = runs.get_reextraction(self._db, self._run)
        self.done = not unsettled and recorded is None
        rung = self._settle(*unsettled[0]) if unsettled else []
        if recorded is not None:
            rung += self._queue_stale_pages(recorded)
        return rung

    def _settle(self, sequence: int, kind: str, reason: UnsettledReason) -> list[int]:
        with self._db.transaction():
            if reason == "absent" and kind == "extract":
                extracts.drop(self._db, sequence, _BATCH_SIZE)
                return []
            if reason != "returned":
                text = GROUP_REMOVED if reason == "absent" else STOPPED
                jobs.skip_ready(self._db, sequence, text, _BATCH_SIZE)
                jobs.skip_delayed(self._db, self._run, sequence, text, _BATCH_SIZE)
                return []
            if jobs.requeue_skipped(self._db, sequence, GROUP_REMOVED, _BATCH_SIZE) < _BATCH_SIZE:
                sequences.mark_rechecked(self._db, sequence)
            return rings.ring_all(self._db, self._run, store_time())

    def _queue_stale_pages(self, search: StaleSearch) -> list[int]:
        """Queue the stale pages of the next range of jobs; report the result once all are done."""
        left = sequences.count(self._db, self._run, "ready", "delayed", "taken", kind=JobKind.EXTRACT)
        if search.at >= search.upto:
            if left == 0 and not stale_pages.has_open_extracts(self._db, self._run):
                if search.targets and search.counted < search.upto:
                    self._count_unlinked(search)
                else:
                    self._finish(search)
            return []
        if left >= _MAX_QUEUED:
            return []
        after, upto = search.at, min(search.at + _SCAN_SIZE, search.upto)
        with self._db.transaction():
            version = versions.current(self._db, self._run)
            if search.groups:
                extracts.clear_defs_version(self._db, self._run, search.groups, after, upto)
            stale = stale_pages.find_stale(self._db, self._run, version, after, upto)
            pages = [page for page, _, lost in stale if not lost]
            if pages:
                extracts.queue(self._db, pages)
            search.at, search.found = upto, search.found + len(stale)
            search.lost += sum(lost == "missing" for _, _, lost in stale)
            search.pruned = Counter(group for _, group, lost in stale if lost == "pruned") + Counter(search.pruned)
            runs.set_reextraction(self._db, self._run, search)
            return rings.ring_extracts(self._db, self._run, store_time()) if pages else []

    def _count_unlinked(self, search: StaleSearch) -> None:
        """Count the pages of the next range of jobs that no link leads to any more."""
        after, upto = search.counted, min(search.counted + _SCAN_SIZE, search.upto)
        with self._db.transaction():
            version = versions.current(self._db, self._run)
            count = stale_pages.count_unlinked(self._db, self._run, version, search.targets, after, upto)
            search.counted, search.unlinked = upto, search.unlinked + count
            runs.set_reextraction(self._db, self._run, search)

    def _finish(self, search: StaleSearch) -> None:
        failed = sequences.count(self._db, self._run, "failed", kind=JobKind.EXTRACT)
        with self._db.transaction():
            _, count = runs.get_reextraction(self._db, self._run)
            self.gave_nothing = bool(search.found) and not count
            runs.set_reextraction(self._db, self._run, None)
            runs.set_relinking(self._db, self._run, False)
            row_counts = {name: count for name, (count, _) in rows.counts(self._db, self._run).items()}
            changes = [
                f"{name}: {before:,} → {plural(row_counts.get(name, 0), 'row')}"
                for name, before in search.before.items()
            ]
            if count or changes:
                self._add_event("INFO", "; ".join([f"{plural(count, 'page')} re-extracted", *changes]))
            for name, before in search.before.items():
                if before and not row_counts.get(name):
                    self._add_event(
                        "WARNING", f"{name}: matches nothing any more, its {plural(before, 'row')} are gone"
                    )
            # the links of pages that were already up to date were not checked, so the count would be wrong
            if search.unlinked and search.found >= search.expected:
                text = f"{plural(search.unlinked, 'page')} keep their rows: no link leads to them any more"
                self._add_event("WARNING", text)
            for group, lost in search.pruned.items():
                text = f"the documents of the group {group} were deleted (`documents: false`, or `pages prune`)"
                self._add_event("WARNING", f"{text}: {plural(lost, 'page')} keep their rows")
            if search.lost + failed:
                text = f"{plural(search.lost + failed, 'page')} could not be re-extracted and keep their rows"
                self._add_event("WARNING", text)
        self.done = True

    def _add_event(self, level: Level, text: str) -> None:
        events.add(self._db, self._run, [Event(time.time(), level, "supervisor", "defs", text)])
