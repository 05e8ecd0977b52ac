"""A slice: one answered ring. Leases a few jobs of the sequence, hands them to the fetch loop, never waits for them."""

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import document_key
from engine.node.capacity import Capacity
from engine.node.ringer import Ringer
from engine.runtime.clock import boottime
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.retry_busy import retry_busy
from engine.store.db.schema import CRAWL
from engine.store.pages import documents
from engine.store.transactions.lease import Lease, LeaseRequest, lease

_log = logging.getLogger(__name__)


class Leaser:
    """Leases for one node: `answer` on the queue's worker thread, `wish` and `hand_on` for the committer's, too.

    One of them leases at a time: the one that holds the room's turn.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: int,
        batch: int,
        capacity: Capacity,
        submit: Callable[[list[LeasedJob]], None],
        fresh_since: Callable[[LeasedJob], float],
        ringer: Ringer,
        on_fenced: Callable[[], None],
        on_error: Callable[[CrawlError], None],
    ) -> None:
        """`submit` works jobs; `fresh_since` tells the wall-clock second after which a document lives."""
        self._db = Database.open(folder / CRAWL, durable=False, busy_seconds=5)
        self._node = node
        self._batch = batch
        self._capacity = capacity
        self._submit = submit
        self._fresh_since = fresh_since
        self._ringer = ringer
        self._on_fenced = on_fenced
        self._on_error = on_error
        self._lease_counter = itertools.count(1)

    def lease_rung(self, sequences: list[int]) -> None:
        """Lease for rung sequences. Rings that cannot be answered now are lost, and repaired by the supervisor."""
        try:
            with self._capacity.lease_lock:
                got = self._lease(sequences)
        except Fenced:
            self._on_fenced()
            return
        except DatabaseBusy as busy:
            _log.warning("no lease: %s", busy.message)
            return
        except CrawlError as error:
            self._on_error(error)
            return
        self._ringer.ring([sequence for sequence, one in zip(sequences, got, strict=True) if one.ring])
        for one in got:
            if one.due is not None:
                self._ringer.arm(one.due)

    def _lease(self, sequences: Sequence[int]) -> list[Lease]:
        free = self._capacity.free
        if free <= 0:
            return [Lease(ring=True) for _ in sequences]
        wish = LeaseRequest(
            node=self._node,
            lease_id=self._next_lease_number(),
            free_slots=free,
            batch=self._batch,
            held_jobs=self._capacity.held,
        )
        got = lease(self._db, wish, sequences, boottime())
        self.dispatch(self._db, [job for one in got for job in one.jobs])
        return got

    def lease_request(self, committed: Sequence[LeasedJob]) -> LeaseRequest | None:
        """What to ask of the store in the commit of these jobs: no more of a host than this node's fair share."""
        held, free, on_hosts = self._capacity.after_commit(committed)
        if free <= 0:
            return None
        return LeaseRequest(
            node=self._node, lease_id=self._next_lease_number(), free_slots=free, batch=self._batch, held_jobs=held,
            slots=self._capacity.concurrency, jobs_by_host=on_hosts,
        )  # fmt: skip

    def _next_lease_number(self) -> int:
        """Never used twice: no other node has this epoch, and no other lease of this node this count."""
        return (self._node << 32) | next(self._lease_counter)

    def dispatch(self, db: Database, taken: Sequence[LeasedJob]) -> None:
        """Give leased jobs to the fetch loop, with the documents that spare fetches, read on a connection."""
        if not taken:
            return
        try:
            jobs = retry_busy(lambda: _attach_documents(db, taken, self._fresh_since))
        except CrawlError as error:
            # Leased, and never to be worked: the node must go, so that its jobs are taken over.
            self._on_error(error)
            return
        self._capacity.add_leased(jobs)
        self._submit(jobs)


def _attach_documents(
    db: Database, jobs: Sequence[LeasedJob], fresh_since: Callable[[LeasedJob], float]
) -> list[LeasedJob]:
    """The jobs, each with the stored document that spares its fetch."""
    pages = [job for job in jobs if job.kind is JobKind.PAGE]
    if not pages:
        return list(jobs)
    keys = {job.id: document_key(job.target or job.url, job.request.method, job.request.body) for job in pages}
    oldest = min(fresh_since(job) for job in pages)
    found = documents.find_stored(db, pages[0].run, list(keys.values()), oldest)
    if not found:
        return list(jobs)
    return [job._replace(stored=found.get(keys[job.id])) if job.id in keys else job for job in jobs]
