"""The committer thread: writes batches of finished jobs, each in one fenced transaction."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from crawl_engine.errors import CrawlError, Fenced
from crawl_engine.model.host import bucket_of
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.node.capacity import Capacity
from crawl_engine.node.commit_queue import CommitQueue
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.ringer import Ringer
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.slice import Leaser
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.host.host_speeds import NO_ANSWER, HostTraffic
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.children import commit_children
from crawl_engine.store.transactions.commit import CommitResult, commit
from crawl_engine.store.transactions.next_page import lease_next_page
from crawl_engine.store.transactions.placement import PlacementCache

_log = logging.getLogger(__name__)

MAX_CHILDREN = 2_000
"""Child jobs of one transaction. Other nodes wait for it."""
_LARGE_BODY_BYTES = 1_000_000
_PIECE_PAUSE = 0.002
_RETRY_PAUSE = 0.1
_BUSY_SECONDS = 3.0
"""Seconds for each of the two databases. The thread ticks between them, so that a busy database does not look like a
stall."""
_FLUSH_SECONDS = 1.0


class HostMeter:
    """Measures latency and bytes by host. A kill loses the measurements since the last flush.

    It writes once a second, since a transaction for each batch would cost more.
    """

    def __init__(self, run: int) -> None:
        self._run = run
        self._traffic: dict[int, HostTraffic] = {}
        self._next_flush = 0.0

    def add(self, outcomes: Iterable[JobOutcome]) -> None:
        for outcome in outcomes:
            if not outcome.stats.answers:
                continue
            traffic = self._traffic.get(outcome.job.host)
            if traffic is None:
                traffic = self._traffic[outcome.job.host] = HostTraffic()
            traffic.bytes += outcome.stats.received
            for status, seconds in outcome.stats.answers:
                if status != NO_ANSWER:
                    bucket = bucket_of(seconds)
                    traffic.latencies[bucket] = traffic.latencies.get(bucket, 0) + 1

    def flush(self, db: Database, *, at_once: bool = False) -> None:
        """Write the measurements, once a second or `at_once`; while the database is busy, later."""
        now = store_time()
        if not self._traffic or (now < self._next_flush and not at_once):
            return
        try:
            with db.transaction():
                host_speeds.add_traffic(db, self._run, self._traffic, now)
        except DatabaseBusy:
            return
        self._traffic, self._next_flush = {}, now + _FLUSH_SECONDS


class Committer(threading.Thread):
    """Stores the bodies of a batch, then commits it and leases new jobs in its place in one transaction."""

    def __init__(
        self,
        node: NodeContext,
        *,
        queue: CommitQueue,
        placements: PlacementCache,
        seen_set: SeenSet,
        ringer: Ringer,
        capacity: Capacity,
        leaser: Leaser,
        give_back: Callable[[frozenset[int]], None],
        on_idle: Callable[[], None],
    ) -> None:
        """`leaser` leases in the place of committed jobs.

        `give_back` gives back the unsent jobs of hosts that another machine has now. `on_idle` is called after a commit
        that leaves the node without a job.
        """
        super().__init__(name="committer", daemon=True)
        self._node = node
        self._queue = queue
        self._placements = placements
        self._seen_set = seen_set
        self._ringer = ringer
        self._capacity = capacity
        self._leaser = leaser
        self._give_back = give_back
        self._on_idle = on_idle
        self._handed_over: frozenset[int] = frozenset()
        """Hosts of which the node holds jobs and leases no more, by the last commit."""
        self.ticked_at = time.monotonic()
        self.done = 0
        self.failed = 0
        self._host_meter = HostMeter(node.run.seq)
        self._shares_bodies = False
        """Whether stored pages of earlier runs may have the same bodies."""

    def stop(self) -> None:
        """Commit what is pending, then end the thread."""
        self._queue.close()

    def run(self) -> None:
        try:
            db = connect(self._node.folder / CRAWL, busy_seconds=_BUSY_SECONDS)
            pages = PageStore(self._node.folder, busy_seconds=_BUSY_SECONDS, page_store=self._node.settings.page_store)
            self._shares_bodies = documents.has_earlier(db, self._node.run.seq)
            while (batch := self._queue.take()) is not None:
                self.ticked_at = time.monotonic()
                if batch:
                    self._commit_with_retry(db, pages, batch)
                for outcome in self._queue.take_leading():
                    if self._lease_next_page(db, outcome):
                        self._queue.mark_continued()
                self._host_meter.flush(db)
            self._host_meter.flush(db, at_once=True)
            db.close()
            pages.close()
        except Fenced:
            self._node.on_fenced()
        except CrawlError as error:
            self._node.on_error(error)

    def _lease_next_page(self, db: Database, outcome: JobOutcome) -> bool:
        """Lease the page to which a finished one leads, so that its request need not wait. False: there is no job."""
        if outcome.job.host in self._handed_over:
            return False
        with self._capacity.lease_lock:
            request = self._leaser.lease_request([])
            if request is None:
                return False
            try:
                result = lease_next_page(db, self._node.run.seq, outcome, self._placements, store_time(), request)
            except Fenced:
                raise
            except Exception:  # the commit of the page fails in the same way, and reports it
                return False
            if result is None:
                return False
            self._leaser.dispatch(db, result.leased)
        self._note_children(outcome)
        outcome.remove(Children)
        if result.ring:
            self._ringer.ring()
        if result.due is not None:
            self._ringer.arm(result.due)
        return bool(result.leased)

    def _commit_with_retry(self, db: Database, pages: PageStore, batch: list[JobOutcome]) -> None:
        """Commit a batch; retry while the database is busy or the disk is full, so that nothing is dropped."""
        while True:
            try:
                self._commit_many_children(db, batch)
                self._store_bodies(db, pages, batch)
                result = self._commit(db, batch)
                break
            except DatabaseBusy as busy:
                _log.warning("commit waits: %s", busy.message)
                self.ticked_at = time.monotonic()
                time.sleep(_RETRY_PAUSE)
        self._capacity.release([outcome.job for outcome in batch])
        self._apply_result(batch, result)
        self._host_meter.add(outcome for outcome in batch if outcome.job.id in result.accepted_ids)
        for outcome in batch:
            outcome.settle()
        if not self._capacity.held:
            self._on_idle()

    def _commit_many_children(self, db: Database, batch: list[JobOutcome]) -> None:
        """Commit the children of a batch in pieces until so few are left that one transaction is short."""
        found = [(outcome, children) for outcome in batch for children in outcome.find_all(Children)]
        excess = sum(len(children.jobs) for _, children in found) - MAX_CHILDREN
        epoch, run = self._node.epoch, self._node.run.seq
        for outcome, children in found:
            while (excess > 0 or children.later is not None) and children.jobs:
                count = min(len(children.jobs), MAX_CHILDREN)
                try:
                    result = commit_children(db, epoch, run, outcome, count, self._placements, store_time())
                except (Fenced, DatabaseBusy):
                    raise
                except Exception as error:
                    _log.error("child jobs cannot be written; the commit of their page tries again", exc_info=error)
                    while children.make_next():
                        pass
                    break
                self.ticked_at = time.monotonic()
                excess -= count
                if result is None:  # the lease is lost: the commit will reject the outcome
                    children.jobs, children.later = (), None
                    break
                if not children.jobs:
                    excess += children.make_next()
                self._seen_set.add(child.identity for child in result.committed)
                if result.ring:
                    self._ringer.ring()
                time.sleep(_PIECE_PAUSE)

    def _store_bodies(self, db: Database, pages: PageStore, batch: list[JobOutcome]) -> None:
        """Write the new documents of a batch to pages.db, only once if the commit is retried."""
        unstored = [
            (outcome, new) for outcome in batch if outcome.page is None for new in outcome.find_all(NewDocument)
        ]
        if unstored:
            fetched = [document for _, document in unstored]
            if self._shares_bodies:
                documents.find_equal(db, fetched)
            for (outcome, document), page_id in zip(unstored, pages.add(fetched, self._tick), strict=True):
                outcome.page = page_id
                if document.size > _LARGE_BODY_BYTES:
                    document.body.forget()

    def _tick(self) -> None:
        self.ticked_at = time.monotonic()

    def _commit(self, db: Database, batch: list[JobOutcome]) -> CommitResult:
        """Try once to commit; the same transaction leases for the slots it frees."""
        with self._capacity.lease_lock:
            self.ticked_at = time.monotonic()
            result = commit(
                db,
                self._node.epoch,
                self._node.run.seq,
                batch,
                self._placements,
                store_time(),
                reextract_stale=self._node.settings.on_reload == "reextract",
                request=self._leaser.lease_request([outcome.job for outcome in batch]),
            )
            if result.leased or result.left_for_others:
                self._leaser.dispatch(db, result.leased)
                self._capacity.mark_refilled()
        return result

    def _apply_result(self, batch: list[JobOutcome], result: CommitResult) -> None:
        for outcome in batch:
            if outcome.job.id in result.accepted_ids:
                if outcome.job.kind is JobKind.PAGE:
                    self.done += outcome.state is JobState.DONE
                    self.failed += outcome.state is JobState.FAILED
                self._note_children(outcome)
        self._handed_over = result.handed_over
        if result.handed_over:
            self._give_back(result.handed_over)
        if result.ring:
            self._ringer.ring()
        for due in result.due:
            self._ringer.arm(due)

    def _note_children(self, outcome: JobOutcome) -> None:
        """Remember the children of an outcome, which have jobs now."""
        for children in outcome.find_all(Children):
            self._seen_set.add(child.identity for child in children.jobs)
