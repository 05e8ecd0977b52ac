"""Plans the re-extraction of stale pages after a change of the defs, one batch a tick.

Queues stale pages, skips the jobs of removed groups and of stopped sequences, and requeues those of groups that came
back. The position of the scan is in the run's row and moves in the transaction that queues the pages, so the next
supervisor resumes there.
"""

from collections import Counter

from msgspec import Struct

from crawl_engine.errors import plural
from crawl_engine.model.job import JobKind, ReasonCode
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.read import stale_pages
from crawl_engine.store.tables.job import extracts, jobs, rings, sequences
from crawl_engine.store.tables.job.sequences import UnsettledReason
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.tables.run.runs import StaleSearch
from crawl_engine.supervise.run_context import RunContext

GROUP_REMOVED = "its group is not in the defs"
"""The reason of SKIPPED jobs whose group was removed; the group may come back."""
STOPPED = "stopped by an operator"
"""The reason of SKIPPED jobs whose sequence was stopped."""
_SCAN_SIZE = 4000
"""Jobs scanned in one transaction."""
_MAX_QUEUED = 8000
"""Re-extraction jobs that may be queued at a time, so that a million stale pages do not double the jobs table."""
_BATCH_SIZE = 2000


class ReextractionPlanner(Struct):
    """The planner of one run. Raises DatabaseBusy; the next step retries."""

    run: RunContext
    done: bool = False
    """Whether the last step had nothing to do."""
    gave_nothing: bool = False
    """Whether the last search found stale pages, and none could be re-extracted."""

    def step(self) -> list[int]:
        """Do one batch of each kind; returns the sequences to ring."""
        unsettled = sequences.list_unsettled(self.run.db, self.run.seq, 1)
        recorded, _ = runs.get_reextraction(self.run.db, self.run.seq)
        self.done = not unsettled and recorded is None
        rung = self._settle(*unsettled[0]) if unsettled else []
        if recorded is not None:
            rung += self._queue_stale_pages(recorded)
        return rung

    def _settle(self, sequence: int, kind: str, reason: UnsettledReason) -> list[int]:
        with self.run.db.transaction():
            if reason == "absent" and kind == "extract":
                extracts.drop(self.run.db, sequence, _BATCH_SIZE)
                return []
            if reason != "returned":
                text, code = (GROUP_REMOVED, ReasonCode.GROUP) if reason == "absent" else (STOPPED, None)
                jobs.skip_ready(self.run.db, sequence, text, _BATCH_SIZE, code)
                jobs.skip_delayed(self.run.db, self.run.seq, sequence, text, _BATCH_SIZE, code)
                return []
            if jobs.requeue_skipped(self.run.db, sequence, _BATCH_SIZE) < _BATCH_SIZE:
                sequences.mark_rechecked(self.run.db, sequence)
            return rings.ring_all(self.run.db, self.run.seq, store_time())

    def _queue_stale_pages(self, search: StaleSearch) -> list[int]:
        """Queue the stale pages of the next range of jobs; report the result once all are done."""
        left = sequences.count(self.run.db, self.run.seq, "ready", "delayed", "taken", kind=JobKind.EXTRACT)
        if search.at >= search.upto:
            if left == 0 and not stale_pages.has_open_extracts(self.run.db, self.run.seq):
                if search.targets and search.counted < search.upto:
                    self._count_unlinked(search)
                else:
                    self._finish(search)
            return []
        if left >= _MAX_QUEUED:
            return []
        after, upto = search.at, min(search.at + _SCAN_SIZE, search.upto)
        with self.run.db.transaction():
            version = versions.current(self.run.db, self.run.seq)
            if search.groups:
                extracts.clear_defs_version(self.run.db, self.run.seq, search.groups, after, upto)
            stale = stale_pages.find_stale(self.run.db, self.run.seq, version, after, upto)
            pages = [page for page, _, lost in stale if not lost]
            if pages:
                extracts.queue(self.run.db, pages)
            search.at, search.found = upto, search.found + len(stale)
            search.lost += sum(lost == "missing" for _, _, lost in stale)
            search.pruned = Counter(group for _, group, lost in stale if lost == "pruned") + Counter(search.pruned)
            runs.set_reextraction(self.run.db, self.run.seq, search)
            return rings.ring_extracts(self.run.db, self.run.seq, store_time()) if pages else []

    def _count_unlinked(self, search: StaleSearch) -> None:
        """Count the pages of the next range of jobs that no link leads to any more."""
        after, upto = search.counted, min(search.counted + _SCAN_SIZE, search.upto)
        with self.run.db.transaction():
            version = versions.current(self.run.db, self.run.seq)
            count = stale_pages.count_unlinked(self.run.db, self.run.seq, version, search.targets, after, upto)
            search.counted, search.unlinked = upto, search.unlinked + count
            runs.set_reextraction(self.run.db, self.run.seq, search)

    def _finish(self, search: StaleSearch) -> None:
        failed = sequences.count(self.run.db, self.run.seq, "failed", kind=JobKind.EXTRACT)
        with self.run.db.transaction():
            _, count = runs.get_reextraction(self.run.db, self.run.seq)
            self.gave_nothing = bool(search.found) and not count
            runs.set_reextraction(self.run.db, self.run.seq, None)
            runs.set_relinking(self.run.db, self.run.seq, False)
            row_counts = {name: of.rows for name, of in rows.counts(self.run.db, self.run.seq).items()}
            changes = [
                f"{name}: {before:,} → {plural(row_counts.get(name, 0), 'row')}"
                for name, before in search.before.items()
            ]
            if count or changes:
                self.run.log("INFO", "defs", "; ".join([f"{plural(count, 'page')} re-extracted", *changes]))
            for name, before in search.before.items():
                if before and not row_counts.get(name):
                    self.run.log(
                        "WARNING", "defs", f"{name}: matches nothing any more, its {plural(before, 'row')} are gone"
                    )
            # the links of pages that were already up to date were not checked, so the count would be wrong
            if search.unlinked and search.found >= search.expected:
                text = f"{plural(search.unlinked, 'page')} keep their rows: no link leads to them any more"
                self.run.log("WARNING", "defs", text)
            for group, lost in search.pruned.items():
                text = f"the documents of the group {group} were deleted (`documents: false`, or `pages prune`)"
                self.run.log("WARNING", "defs", f"{text}: {plural(lost, 'page')} keep their rows")
            if search.lost + failed:
                text = f"{plural(search.lost + failed, 'page')} could not be re-extracted and keep their rows"
                self.run.log("WARNING", "defs", text)
        self.done = True
