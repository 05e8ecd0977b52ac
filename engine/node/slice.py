"""A slice: one answered ring. Leases a few jobs of the sequence, hands them to the fetch loop, never waits for them."""

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import CrawlError, Fenced
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import document_key
from engine.node.capacity import Room
from engine.node.ringer import Ringer
from engine.runtime.clock import boottime
from engine.store.db.connector import Busy, Database, patiently
from engine.store.db.schema import CRAWL
from engine.store.pages import documents
from engine.store.transactions.lease import Lease, Wish, lease

_log = logging.getLogger(__name__)


class Slicer:
    """Leases for one node: `answer` on the queue's worker thread, `wish` and `hand_on` for the committer's, too.

    One of them leases at a time: the one that holds the room's turn.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: int,
        batch: int,
        room: Room,
        submit: Callable[[list[LeasedJob]], None],
        fresh_since: Callable[[LeasedJob], float],
        ringer: Ringer,
        fenced: Callable[[], None],
        broken: Callable[[CrawlError], None],
    ) -> None:
        """`submit` works jobs; `fresh_since` tells the wall-clock second after which a document lives."""
        self._db = Database.open(folder / CRAWL, durable=False, busy_seconds=5)
        self._node = node
        self._batch = batch
        self._room = room
        self._submit = submit
        self._fresh_since = fresh_since
        self._ringer = ringer
        self._fenced = fenced
        self._broken = broken
        self._numbers = itertools.count(1)

    def answer(self, sequences: list[int]) -> None:
        """Lease for rung sequences. Rings that cannot be answered now are lost, and repaired by the supervisor."""
        try:
            with self._room.turn:
                got = self._leased(sequences)
        except Fenced:
            self._fenced()
            return
        except Busy as busy:
            _log.warning("no lease: %s", busy.what)
            return
        except CrawlError as error:
            self._broken(error)
            return
        self._ringer.ring([sequence for sequence, one in zip(sequences, got, strict=True) if one.ring])
        for one in got:
            if one.due is not None:
                self._ringer.arm(one.due)

    def _leased(self, sequences: Sequence[int]) -> list[Lease]:
        free = self._room.free
        if free <= 0:
            return [Lease(ring=True) for _ in sequences]
        wish = Wish(node=self._node, number=self._number(), free=free, batch=self._batch, held=self._room.held)
        got = lease(self._db, wish, sequences, boottime())
        self.hand_on(self._db, [job for one in got for job in one.jobs])
        return got

    def wish(self, committed: Sequence[LeasedJob]) -> Wish | None:
        """What to ask of the store in the commit of these jobs: no more of a host than this node's fair share."""
        held, free, on_hosts = self._room.after(committed)
        if free <= 0:
            return None
        return Wish(
            node=self._node, number=self._number(), free=free, batch=self._batch, held=held,
            slots=self._room.concurrency, on_hosts=on_hosts,
        )  # fmt: skip

    def _number(self) -> int:
        """Never used twice: no other node has this epoch, and no other lease of this node this count."""
        return (self._node << 32) | next(self._numbers)

    def hand_on(self, db: Database, taken: Sequence[LeasedJob]) -> None:
        """Give leased jobs to the fetch loop, with the documents that spare fetches, read on a connection."""
        if not taken:
            return
        try:
            jobs = patiently(db, lambda d: _with_documents(d, taken, self._fresh_since))
        except CrawlError as error:
            # Leased, and never to be worked: the node must go, so that its jobs are taken over.
            self._broken(error)
            return
        self._room.take(jobs)
        self._submit(jobs)


def _with_documents(
    db: Database, jobs: Sequence[LeasedJob], fresh_since: Callable[[LeasedJob], float]
) -> list[LeasedJob]:
    """The jobs, each with the stored document that spares its fetch."""
    pages = [job for job in jobs if job.kind is JobKind.PAGE]
    if not pages:
        return list(jobs)
    keys = {job.id: document_key(job.target or job.url, job.request.method, job.request.body) for job in pages}
    oldest = min(fresh_since(job) for job in pages)
    found = documents.stored(db, pages[0].run, list(keys.values()), oldest)
    if not found:
        return list(jobs)
    return [job._replace(stored=found.get(keys[job.id])) if job.id in keys else job for job in jobs]
