"""A slice: one answered ring. Leases a few jobs of the sequence, hands them to the fetch loop, never waits for them."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.clock import boottime
from engine.errors import CrawlError, Fenced
from engine.model.identity import document_key
from engine.model.job import JobKind, LeasedJob
from engine.node.ringer import Ringer
from engine.store import documents
from engine.store.connector import Busy, Database, patiently
from engine.store.lease import lease
from engine.store.schema import CRAWL

_log = logging.getLogger(__name__)


class Slicer:
    """Answers rings for one node. Used by the queue's worker thread alone."""

    def __init__(
        self,
        folder: Path,
        *,
        node: int,
        batch: int,
        free: Callable[[], int],
        held: Callable[[], int],
        submit: Callable[[list[LeasedJob]], None],
        fresh_since: Callable[[LeasedJob], float],
        ringer: Ringer,
        fenced: Callable[[], None],
        broken: Callable[[CrawlError], None],
    ) -> None:
        """`free`: slots; `held`: jobs in hand; `fresh_since`: the wall-clock second after which a document lives."""
        self._db = Database.open(folder / CRAWL, durable=False, busy_seconds=5)
        self._node = node
        self._batch = batch
        self._free = free
        self._held = held
        self._submit = submit
        self._fresh_since = fresh_since
        self._ringer = ringer
        self._fenced = fenced
        self._broken = broken
        self._number = 0

    def answer(self, sequences: list[int]) -> None:
        """Lease for rung sequences. Rings that cannot be answered now are lost, and repaired by the supervisor."""
        free = self._free()
        if free <= 0:
            self._ringer.ring(sequences)
            return
        self._number += 1
        # Never used twice: no other node has this epoch, and no other lease of this node this count.
        number = (self._node << 32) | self._number
        try:
            got = lease(
                self._db, node=self._node, sequences=sequences, number=number, free=free, batch=self._batch,
                now=boottime(), held=self._held(),
            )  # fmt: skip
        except Fenced:
            self._fenced()
            return
        except Busy as busy:
            _log.warning("no lease: %s", busy.what)
            return
        except CrawlError as error:
            self._broken(error)
            return
        taken = [job for one in got for job in one.jobs]
        if taken:
            try:
                taken = patiently(self._db, lambda _: self._with_documents(taken))
            except CrawlError as error:
                # Leased, and never to be worked: the node must go, so that its jobs are taken over.
                self._broken(error)
                return
            self._submit(taken)
        self._ringer.ring([sequence for sequence, one in zip(sequences, got, strict=True) if one.ring])
        for one in got:
            if one.due is not None:
                self._ringer.arm(one.due)

    def _with_documents(self, jobs: list[LeasedJob]) -> list[LeasedJob]:
        """The jobs, each with the stored document that spares its fetch."""
        pages = [job for job in jobs if job.kind is JobKind.PAGE]
        if not pages:
            return jobs
        keys = {job.id: document_key(job.target or job.url, job.request.method, job.request.body) for job in pages}
        oldest = min(self._fresh_since(job) for job in pages)
        found = documents.stored(self._db, pages[0].run, list(keys.values()), oldest)
        if not found:
            return jobs
        return [replace(job, stored=found.get(keys[job.id])) if job.id in keys else job for job in jobs]
