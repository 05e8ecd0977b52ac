"""Deletes the documents to which no job refers, but for the newest of each URL, with their bodies."""

from array import array
from collections.abc import Callable, Collection, Iterator

from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore

BATCH = 500
"""Documents of one transaction."""
_SCAN_BATCH = 10_000
_OF_JOBS = "SELECT id, document FROM jobs WHERE id > ? AND document IS NOT NULL ORDER BY id LIMIT +?"
_OF_JOBS_OF_RUNS = """
SELECT id, document FROM jobs WHERE id > ? AND document IS NOT NULL AND +run IN (SELECT value FROM json_each(?))
ORDER BY id LIMIT +?
"""
_OF_RUNS = """
SELECT id FROM documents
WHERE run IN (SELECT value FROM json_each(?1)) OR checked_run IN (SELECT value FROM json_each(?1))
"""


class DocumentSet:
    """Ids of documents, one bit each."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, id_: int) -> None:
        place = id_ >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1_000 - len(self._bits)))
        self._bits[place] |= 1 << (id_ & 7)

    def __contains__(self, id_: int) -> bool:
        place = id_ >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (id_ & 7))


def delete_unused(crawl: Database, pages: PageStore, *, stop: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """Delete the documents to which no job of any run refers, and their bodies; yields after each batch how many.

    The newest document of each URL stays: a later run asks with its version. Call it while no job is leased, which
    means with the lock of the data dir: a lease may name a document that its job does not refer to yet. A run that is
    deleted loses its jobs first, then its documents by this call.

    In batches, each one transaction in crawl.db and then one in pages.db. After a kill in between, the next start or
    the next prune deletes the bodies (`PageStore.delete_orphans`). Raises DatabaseBusy, StorageError.
    """
    used = list_used(crawl)
    unused = array("q", (old.id for old in documents.iterate_outdated(crawl, keep=1) if old.id not in used))
    for batch in batches(unused):
        if stop():
            return
        with crawl.transaction():
            documents.delete(crawl, batch)
        pages.delete(batch)
        yield len(batch)


def list_used(crawl: Database) -> DocumentSet:
    """The documents to which jobs refer."""
    return _add_of_jobs(DocumentSet(), lambda last: crawl.all(_OF_JOBS, (last, _SCAN_BATCH)))


def list_used_by(crawl: Database, runs: Collection[int]) -> DocumentSet:
    """The documents that these runs have fetched, found unchanged or used."""
    used, ids = DocumentSet(), id_list(runs)
    for (document,) in crawl.execute(_OF_RUNS, (ids,)):
        used.add(document)
    return _add_of_jobs(used, lambda last: crawl.all(_OF_JOBS_OF_RUNS, (last, ids, _SCAN_BATCH)))


def _add_of_jobs(used: DocumentSet, read: Callable[[int], list[tuple[int, int]]]) -> DocumentSet:
    last = 0
    while found := read(last):
        for _, document in found:
            used.add(document)
        last = found[-1][0]
    return used


def batches(ids: "array[int]") -> Iterator[list[int]]:
    """The ids in batches of one transaction each."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH].tolist()
