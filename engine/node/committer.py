"""The committer: gathers finished jobs and writes them in one fenced transaction, after the bodies they refer to."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, JobState
from engine.node.capacity import Capacity
from engine.node.ringer import Ringer
from engine.node.seen_set import SeenSet
from engine.node.slice import Leaser
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from engine.store.pages.documents import PageStore
from engine.store.transactions.commit import CommitResult, commit
from engine.store.transactions.outcome import JobOutcome
from engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 0.05
"""Seconds a finished job waits for others at most."""
_COMMIT_PART, _COMMIT_WHOLE = 3, 4
"""Of what the node holds, so much is committed together."""
_RETRY_PAUSE = 0.1
_BUSY_SECONDS = 3.0
"""For each of the two databases: between them a tick, so that neither looks like a thread that hangs."""


class Committer(threading.Thread):
    """Commits when three quarters of what the node holds are finished, at the latest after 50 ms."""

    def __init__(
        self,
        folder: Path,
        *,
        node: int,
        run: int,
        places: PlacementCache,
        seen_set: SeenSet,
        ringer: Ringer,
        capacity: Capacity,
        refill_leaser: Callable[[], Leaser | None],
        on_idle: Callable[[], None] = lambda: None,
        on_fenced: Callable[[], None],
        on_error: Callable[[CrawlError], None],
        reextract_stale: bool = True,
    ) -> None:
        """`refill` tells who leases in the place of what is committed, in the same transaction; None: nobody does.

        `idle` is called after a commit that leaves the node without a job.
        `renew`: whether pages that went stale while they were worked are re-extracted.
        """
        super().__init__(name="committer", daemon=True)
        self._folder = folder
        self._node = node
        self._run = run
        self._places = places
        self._seen_set = seen_set
        self._ringer = ringer
        self._reextract_stale = reextract_stale
        self._capacity = capacity
        self._refill_leaser = refill_leaser
        self._on_idle = on_idle
        self._on_fenced = on_fenced
        self._on_error = on_error
        self._condition = threading.Condition()
        self._pending: list[JobOutcome] = []
        self._pending_since = 0.0
        self._stopped = False
        self.ticked_at = time.monotonic()
        self.done = 0
        self.failed = 0

    def add(self, finished: JobOutcome) -> None:
        """A job is done with; any thread may say so."""
        with self._condition:
            if not self._pending:
                self._pending_since = time.monotonic()
                self._condition.notify()
            self._pending.append(finished)
            if self._is_batch_ready():
                self._condition.notify()

    def _is_batch_ready(self) -> bool:
        return len(self._pending) * _COMMIT_WHOLE >= self._capacity.held * _COMMIT_PART

    def stop(self) -> None:
        """Commit what is there and end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def run(self) -> None:
        """The thread."""
        try:
            db = Database.open(self._folder / CRAWL, busy_seconds=_BUSY_SECONDS)
            pages = PageStore(self._folder, busy_seconds=_BUSY_SECONDS)
            while (group := self._next_group()) is not None:
                self._commit_with_retry(db, pages, group)
            db.close()
            pages.close()
        except Fenced:
            self._on_fenced()
        except CrawlError as error:
            self._on_error(error)

    def _next_group(self) -> list[JobOutcome] | None:
        with self._condition:
            while True:
                self.ticked_at = time.monotonic()
                if self._pending:
                    left = self._pending_since + MAX_WAIT_SECONDS - time.monotonic()
                    if left <= 0 or self._stopped or self._is_batch_ready():
                        group, self._pending = self._pending, []
                        return group
                    self._condition.wait(left)
                elif self._stopped:
                    return None
                else:
                    self._condition.wait(1.0)

    def _commit_with_retry(self, db: Database, pages: PageStore, group: list[JobOutcome]) -> None:
        """Commit a group, again and again while the database is busy or the disk is full: nothing is dropped."""
        while True:
            try:
                _store_bodies(pages, group)
                result = self._commit(db, group)
                break
            except DatabaseBusy as busy:
                _log.warning("commit waits: %s", busy.message)
                self.ticked_at = time.monotonic()
                time.sleep(_RETRY_PAUSE)
        self._capacity.release([f.job for f in group])
        self._apply_result(group, result)
        if not self._capacity.held:
            self._on_idle()

    def _commit(self, db: Database, group: list[JobOutcome]) -> CommitResult:
        """One attempt. The places it frees are filled by the same transaction."""
        with self._capacity.lease_lock:
            self.ticked_at = time.monotonic()
            slicer = self._refill_leaser()
            wish = slicer.lease_request([f.job for f in group]) if slicer is not None else None
            result = commit(
                db,
                self._node,
                self._run,
                group,
                self._places,
                boottime(),
                reextract_stale=self._reextract_stale,
                request=wish,
            )
            if slicer is not None and (result.leased or result.left_for_others):
                slicer.dispatch(db, result.leased)
                self._capacity.mark_refilled()
        return result

    def _apply_result(self, group: list[JobOutcome], result: CommitResult) -> None:
        for f in group:
            if f.job.id in result.accepted_ids:
                if f.job.kind is JobKind.PAGE:
                    self.done += f.state is JobState.DONE
                    self.failed += f.state is JobState.FAILED
                self._seen_set.add(child.identity for child in f.children)
        self._ringer.ring(result.ring)
        for due in result.due:
            self._ringer.arm(due)


def _store_bodies(pages: PageStore, group: list[JobOutcome]) -> None:
    """Put the new documents of a group into pages.db, once."""
    fresh = [f for f in group if f.document is not None and f.page is None]
    if fresh:
        for f, page in zip(fresh, pages.add([f.document for f in fresh if f.document]), strict=True):
            f.page = page
