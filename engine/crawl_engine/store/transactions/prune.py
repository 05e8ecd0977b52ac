"""Chooses the documents that limits no longer allow, and deletes their bodies."""

import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from crawl_engine.model.run import Limits
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.unused import batches, delete_unused, list_used_by


class PruneChoice(Struct, frozen=True):
    """The documents to prune, the oldest first."""

    ids: "array[int]"
    bytes: int
    """What their pages take in pages.db."""
    left: int
    """What all others take."""


def choose_documents(crawl: Database, pages: PageStore, limits: Limits) -> PruneChoice:
    """The documents that limits no longer allow.

    The unfinished run keeps what it has. The newest document of each URL and those of the last DONE run stay, too,
    unless `limits.keep` is 0; `max_bytes` counts all pages. Deletes first what an earlier prune has left.
    """
    pages.delete_orphans(crawl)
    keep = 1 if limits.keep is None else limits.keep
    kept = list_used_by(crawl, _list_keeping_runs(crawl, with_done=keep > 0))
    oldest = None if limits.older_than is None else time.time() - limits.older_than
    sizes = _PageSizes(pages)
    chosen, left, total = array("q"), sizes.total, sizes.total
    ids, ages = array("q"), array("d")
    for old in documents.iterate_outdated(crawl, keep=keep):
        if not old.is_pruned and old.id not in kept and (oldest is None or old.asked_at < oldest):
            ids.append(old.id)
            ages.append(old.asked_at)
    for place in sorted(range(len(ids)), key=lambda place: (ages[place], ids[place])):
        if limits.max_bytes is not None and left <= limits.max_bytes:
            break
        chosen.append(ids[place])
        left -= sizes.delete(ids[place])
    return PruneChoice(chosen, total - left, left)


def prune_documents(
    crawl: Database, pages: PageStore, choice: PruneChoice, *, stop: Callable[[], bool] = lambda: False
) -> Iterator[int]:
    """Delete the bodies of documents, and what no job refers to; yields after each batch how many it deleted.

    Only with the lock of the data dir: a lease may name a document that its job does not refer to yet. The reference
    is cleared before the body is deleted. After a kill in between, the next choice or start deletes the body.
    """
    for batch in batches(choice.ids):
        if stop():
            return
        with crawl.transaction():
            documents.mark_pruned(crawl, batch)
        pages.delete(batch)
        yield len(batch)
    for _ in delete_unused(crawl, pages, stop=stop):
        yield 0


def _list_keeping_runs(crawl: Database, *, with_done: bool) -> list[int]:
    """The runs whose documents stay: the latest if it is unfinished, and the last DONE."""
    done = runs.list_done_ids(crawl)[:1] if with_done else []
    keeping = [runs.latest_unfinished(crawl), *(runs.get_by_id(crawl, id_) for id_ in done)]
    return [run.seq for run in keeping if run is not None]


class _PageSizes:
    """The bytes of pages. A body that several pages have is free once the last of them is deleted."""

    def __init__(self, pages: PageStore) -> None:
        self._ids, self._sources = array("q"), array("q")
        self._headers, self._bodies = array("q"), array("q")
        self._users: Counter[int] = Counter()
        self._deleted: set[int] = set()
        """Deleted pages whose body others still have."""
        for page in pages.iterate_sizes():
            self._ids.append(page.id)
            self._sources.append(page.source or 0)
            self._headers.append(page.headers)
            self._bodies.append(page.body)
            if page.source is not None:
                self._users[page.source] += 1
            if not page.headers:
                self._deleted.add(page.id)
        self.total = sum(self._headers) + sum(self._bodies)

    def delete(self, page: int) -> int:
        """Count a page as deleted; returns the bytes that this frees."""
        place = bisect_left(self._ids, page)
        if place == len(self._ids) or self._ids[place] != page:
            return 0
        freed, source = self._headers[place], self._sources[place]
        if source:
            self._users[source] -= 1
            if not self._users[source] and source in self._deleted:
                freed += self._bodies[bisect_left(self._ids, source)]
        elif self._users[page]:
            self._deleted.add(page)
        else:
            freed += self._bodies[place]
        return freed
