"""Decides whether a run is complete, and records how it ended."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from crawl_engine.append.loop.output_dir import LATEST, link_output
from crawl_engine.errors import CrawlError
from crawl_engine.judge.run_verdict import judge_run
from crawl_engine.model.run import RunState, Stage
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages import temporary
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read.data_warnings import store_found
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.transactions import release
from crawl_engine.store.transactions.takeover import end_processes
from crawl_engine.supervise.analysis.doubled_keys import warn_of_doubled_keys
from crawl_engine.supervise.analysis.expectations import build_baseline, find_missed
from crawl_engine.supervise.analysis.run_stats import RunStats
from crawl_engine.supervise.checkpoints.tracker import CheckpointTracker
from crawl_engine.supervise.reload.defs_sync import DefsSync
from crawl_engine.supervise.run_context import RunContext
from crawl_engine.supervise.stages import FINAL_STATES, ExitReason, StageTracker, exit_code_of

_SECONDS = 10.0
"""Seconds that the end of a run may spend on it; the next start does the rest."""
_BUSY_SECONDS = 0.5


class RunOutcome(Struct, frozen=True, kw_only=True):
    """How a run ended, by the tables."""

    exit_reason: ExitReason
    reason: str | None
    falls_short: bool
    """Whether too many jobs failed, an expectation was missed, or nothing was extracted where something should be."""


class RunEnd(Struct, frozen=True, kw_only=True):
    """The end of one run under one supervisor."""

    run: RunContext
    is_last: bool
    """Whether the epoch ends with the run; a leader's ends later, after what it tidies up."""
    stages: StageTracker
    stats: RunStats
    checkpoints: CheckpointTracker
    defs_sync: DefsSync

    def try_complete(self) -> bool:
        """Whether no work remains; decided and recorded in one transaction. Raises DatabaseBusy."""
        run = runs.get(self.run.db, self.run.seq)
        if run.seeded_version != run.defs_version or sequences.count(self.run.db, run.seq, "taken", kind=None):
            return False
        if run.paused and (run.paused != "disk" or self.defs_sync.incomplete_reason()):
            return False  # a run that only the disk pauses may end once every row is in its file
        if self.defs_sync.has_open_work() or not self.defs_sync.is_settled():
            return False
        with self.run.db.transaction():
            if self.defs_sync.has_open_work() or release.release_ended(self.run.db, run.seq):
                return False
            return runs.set_state(self.run.db, run.seq, RunState.DRAINING)

    def record(self, exit_reason: ExitReason, reason: str | None) -> RunOutcome:
        """Write the end of the run and of the supervisor's epoch. Raises DatabaseBusy, with nothing written."""
        run, falls_short = self.run.seq, False
        with self.run.db.transaction():
            self.stages.write_pending()
            end_processes(self.run.db, None, "the run ended", time.time())  # of machines that did not end in time
            jobs.release_all(self.run.db, run, "the run was stopped")
            if exit_reason is ExitReason.COMPLETE:
                falls_short = self.stats.too_many_failed()
                if missing := self.defs_sync.incomplete_reason():
                    exit_reason, reason = ExitReason.FAILED, missing
                elif self.defs_sync.has_work_left():
                    exit_reason, reason = ExitReason.EXTRACTED, "extracted; the next run fetches the remaining pages"
            missed = find_missed(self.run.db, run, self.run.settings, complete=exit_reason is ExitReason.COMPLETE)
            complete, state, now = exit_reason is ExitReason.COMPLETE, FINAL_STATES[exit_reason], time.time()
            runs.set_state(self.run.db, run, state, reason)
            if complete and temporary.has_any(self.run.db):
                temporary.mark_ended(self.run.db, run)
            self.checkpoints.close(done=complete, reason=reason)
            runs.set_missed(self.run.db, run, missed)
            store_found(self.run.db, runs.get(self.run.db, run))
            runs.set_baseline(self.run.db, run, build_baseline(self.run.db, run) if complete else None)
            if complete:
                warn_of_doubled_keys(self.run.db, run)
            falls_short = self.stats.log_warnings() or falls_short or bool(missed)
            falls_short = falls_short or self.defs_sync.extracted_nothing
            runs.end(self.run.db, run, now, exit_code_of(exit_reason, falls_short=falls_short), reason)
            self.stats.log_noindex()
            for one in missed:
                self.run.log("ERROR", "run", f"expectation missed: {one.text}")
            verdict = judge_run(runs.get(self.run.db, run), is_live=False)
            self.run.log("INFO" if verdict.level == "good" else "WARNING", "run", f"run {self.run.id} {verdict.word}")
            runs.enter_stage(self.run.db, run, Stage.SHUTDOWN_COMPLETE)
            if self.is_last:
                supervisors.end(self.run.db, self.run.epoch, now)
        if complete:
            folder = FileFolder(self.run.folder, self.run.id)
            folder.remove_parts()
            with contextlib.suppress(OSError):  # the appender has said why; the next one tries again
                link_output(folder.output.parent, LATEST, self.run.id)
        self.stages.clear_pending()
        self.stats.confirm_warnings()
        return RunOutcome(exit_reason=exit_reason, reason=reason, falls_short=falls_short)


def delete_documents(db: Database, folder: Path, cancelled: Callable[[], bool]) -> None:
    """Delete bodies that the ended run no longer needs, for a limited time; the next start deletes the rest."""
    deadline = time.monotonic() + _SECONDS
    with contextlib.suppress(CrawlError):
        if temporary.has_any(db):
            with contextlib.closing(PageStore(folder, busy_seconds=_BUSY_SECONDS)) as pages:
                temporary.delete_ended(db, pages, stop=lambda: cancelled() or time.monotonic() > deadline)
