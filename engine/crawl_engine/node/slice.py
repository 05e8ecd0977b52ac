"""Leases jobs of the sequences that wait longest, and hands them to the fetch loop."""

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from crawl_engine.errors import CrawlError, Fenced
from crawl_engine.model.job import JobKind, LeasedJob, StoredPage
from crawl_engine.node.capacity import Capacity, Intake
from crawl_engine.node.handlers.freshness import FreshnessRules, may_serve, next_document_key
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.requests.shared_jars import SharedJars
from crawl_engine.node.ringer import Ringer
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.retry_busy import retry_busy
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.pages import documents
from crawl_engine.store.transactions.lease import Lease, LeaseRequest, lease

_log = logging.getLogger(__name__)


class Leaser:
    """Leases jobs for one node, on the queue's worker thread and inside the committer's transactions.

    A slice never waits for its jobs. Both threads hold `Capacity.lease_lock` while they lease.
    """

    def __init__(
        self,
        node: NodeContext,
        *,
        intake: Intake,
        capacity: Capacity,
        submit: Callable[[list[LeasedJob]], None],
        shared_jars: SharedJars,
        ringer: Ringer,
    ) -> None:
        """`submit` starts jobs."""
        self._db = connect(node.folder / CRAWL, durable=False, busy_seconds=5)
        self._node = node
        self._intake = intake
        self._capacity = capacity
        self._submit = submit
        self._freshness = FreshnessRules(node.settings.live_seconds)
        self._shared_jars = shared_jars
        self._ringer = ringer
        self._lease_counter = itertools.count(1)
        self.ticked_at = time.monotonic()
        """Monotonic second at which the queue's worker last polled or leased."""

    def should_dequeue(self) -> bool:
        """Whether to answer a doorbell now."""
        self.ticked_at = time.monotonic()
        return self._capacity.should_dequeue() and self._intake.accepts_jobs

    def lease_rung(self) -> None:
        """Lease from rung sequences. A doorbell that cannot be answered now is lost; the supervisor repairs it."""
        if self._intake.draining.is_set():
            self._ringer.ring()  # for another node
            return
        try:
            self._lease_and_ring()
        except Fenced:
            self._node.on_fenced()
        except DatabaseBusy as busy:
            _log.warning("no lease: %s", busy.message)
        except CrawlError as error:
            self._node.on_error(error)
        self.ticked_at = time.monotonic()

    def _lease_and_ring(self) -> None:
        with self._capacity.lease_lock:
            free = self._capacity.free
            leases = self._lease(free) if free > 0 else []
        if len(leases) > free or free <= 0 or any(leased.ring for leased in leases):
            self._ringer.ring()
        for leased in leases:
            if leased.due is not None:
                self._ringer.arm(leased.due)

    def _lease(self, free: int) -> list[Lease]:
        leases = lease(self._db, self._node.run.seq, self._request(free, self._capacity.held), store_time())
        self.dispatch(self._db, [job for leased in leases for job in leased.jobs])
        return leases

    def lease_request(self, committed: Sequence[LeasedJob]) -> LeaseRequest | None:
        """The lease to add to the commit of these jobs: at most this node's fair share of each host. None: no lease."""
        if not self._intake.accepts_jobs:
            return None
        held, free, jobs_by_host = self._capacity.after_commit(committed)
        if free <= 0:
            return None
        return replace(self._request(free, held), slots=self._capacity.concurrency, jobs_by_host=jobs_by_host)

    def _request(self, free: int, held: int) -> LeaseRequest:
        """A request with a number never used twice: only this node has its epoch, and the count grows."""
        epoch = self._node.epoch
        return LeaseRequest(
            node=epoch,
            lease_id=(epoch << 32) | next(self._lease_counter),
            free_slots=free,
            batch=self._node.settings.batch,
            held_jobs=held,
        )

    def dispatch(self, db: Database, leased: Sequence[LeasedJob]) -> None:
        """Hand leased jobs to the fetch loop, with the stored documents that replace fetches, read through `db`."""
        if not leased:
            return
        try:
            jobs = retry_busy(lambda: self._attach_documents(db, list(map(self._node.def_cache.give_plan, leased))))
            retry_busy(partial(self._shared_jars.load, db, leased))
        except CrawlError as error:
            # leased, but nothing would work them: the node must exit so that another one takes them over
            self._node.on_error(error)
            return
        self._capacity.add_leased(jobs)
        self._submit(jobs)

    def _attach_documents(self, db: Database, jobs: list[LeasedJob]) -> list[LeasedJob]:
        """The jobs, each with the stored document that replaces its fetch, if any."""
        pages = [job for job in jobs if job.kind is JobKind.PAGE]
        if not pages:
            return jobs
        keys = {job.id: next_document_key(job) for job in pages}
        oldest = min(self._freshness.oldest(job) for job in pages)
        stored = documents.list_stored(db, pages[0].run, list(keys.values()), oldest)
        if not stored:
            return jobs
        return [self._with_document(db, job, stored.get(keys[job.id], ())) if job.id in keys else job for job in jobs]

    def _with_document(self, db: Database, job: LeasedJob, stored: Sequence[StoredPage]) -> LeasedJob:
        """The job with the newest of its documents that is fresh for it; documents of other jobs may be older."""

        def is_own(job: LeasedJob, document: StoredPage) -> bool:
            return documents.is_of_job(db, job.id, document.page)

        fits = (one for one in reversed(stored) if self._freshness.is_fresh(job, one) and may_serve(job, one, is_own))
        fresh = next(fits, None)
        return job if fresh is None else self._node.def_cache.give_plan(job._replace(stored=fresh))
