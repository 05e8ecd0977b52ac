"""Stores and deletes the bodies of documents, in pages.db; crawl.db refers to those that it has."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from crawl_engine.errors import StorageError
from crawl_engine.model.content_digest import body_digest
from crawl_engine.store.db.connector import (
    BUSY_SECONDS,
    Database,
    DatabaseBusy,
    connect,
    id_list,
    is_immutable,
    placeholders,
)
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument, lost_pages_message, mark_lost, to_headers
from crawl_engine.store.pages.objects import BodyObjects
from crawl_engine.store.pages.packing import BodyCompressor
from crawl_engine.store.tables.run import events, nodes
from crawl_engine.store.tables.run.events import Event

_LAST_PAGE = "SELECT seq FROM sqlite_sequence WHERE name = 'pages'"
_ADD_PAGE = "INSERT INTO pages (id, headers, source, body) {values}"
_SOURCES = "SELECT id, coalesce(source, id) FROM pages WHERE headers <> '' AND id IN (SELECT value FROM json_each(?))"
_DELETE_SHARING = "DELETE FROM pages WHERE source IS NOT NULL AND id IN (SELECT value FROM json_each(?))"
_IS_UNSHARED = "NOT EXISTS (SELECT 1 FROM pages u WHERE u.source = pages.id)"
_DELETE_UNSHARED = f"DELETE FROM pages WHERE id IN (SELECT value FROM json_each(?)) AND {_IS_UNSHARED}"
_DELETE_UNSHARED_DELETED = f"{_DELETE_UNSHARED} AND headers = ''"
_UNSHARED_OBJECTS = f"""
SELECT body FROM pages WHERE substr(body, 1, 1) = x'40' AND {_IS_UNSHARED} AND (
    id IN (SELECT value FROM json_each(?)) OR (headers = '' AND id IN (SELECT value FROM json_each(?))))
"""
_HALF_DELETED = f"SELECT id FROM pages WHERE headers = '' AND id <= ? AND {_IS_UNSHARED}"
_MARK_DELETED = "UPDATE pages SET headers = '' WHERE id IN (SELECT value FROM json_each(?))"
_WHOLE_PAGES = "FROM pages p CROSS JOIN pages b ON b.id = coalesce(p.source, p.id) WHERE p.headers <> ''"
_BODY = f"SELECT p.headers, b.body {_WHOLE_PAGES} AND p.id = ?"
_LIST_HEADERS = "SELECT id, headers FROM pages WHERE headers <> '' AND id IN (SELECT value FROM json_each(?))"
_SIZES = "SELECT id, source, length(headers) AS headers, length(body) AS body FROM pages ORDER BY id"
_PAGE_IDS = "SELECT id FROM pages WHERE id > ? AND id <= ? AND headers <> '' ORDER BY id LIMIT +?"
_EXISTING_DOCUMENTS = "SELECT id FROM documents WHERE pruned = 0 AND id IN ({ids})"
_REUSABLE_DOCUMENTS = "SELECT id FROM documents WHERE id > ? AND key <> x'' ORDER BY id LIMIT +?"
_EXISTING_PAGES = f"SELECT p.id {_WHOLE_PAGES} AND p.id IN (SELECT value FROM json_each(?))"
_CRAWL_IDENTITY = "SELECT value FROM meta WHERE name = 'identity'"
_LARGE_BODY_BYTES = 512 * 1024
_AT_ONCE = 16
"""Objects that are put side by side."""
_SCAN_BATCH, _ID_GAP = 10_000, 1_000_000
_WAL_PAGES = 256
"""Of 16 kB: the write-ahead log stays small, so that little is left to copy at the end of a run."""


class StoredBody(NamedTuple):
    """The body of a stored page, and the headers of its answer, names in lower case."""

    body: Body
    headers: tuple[tuple[str, str], ...]


class PageSize(NamedTuple):
    """What a page takes in pages.db."""

    id: int
    source: int | None
    """The page that has its body; None: this one."""
    headers: int
    """0: the page was deleted, and others have its body."""
    body: int


class _Added(Struct):
    """Rows that were added."""

    documents: Sequence[NewDocument]
    ids: list[int]
    frames: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Places and objects still to put."""
    large: list[tuple[bytes, NewDocument]] = field(default_factory=list)
    """The same of large bodies, which are compressed one by one."""
    samples: list[bytes] = field(default_factory=list)


class PageStore:
    """The bodies, in pages.db. Used by one thread."""

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool = False,
        immutable: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        page_store: str | None = None,
    ) -> None:
        """`page_store`: where large bodies go; None: into the table. The others are those of `connect`."""
        self._db = connect(
            folder / PAGES, read_only=read_only, immutable=immutable, busy_seconds=busy_seconds, small_cache=True
        )
        self._is_file = not self._db.is_shared
        """Whether the bodies are in a file of this machine; else they are in PostgreSQL, beside the documents."""
        if self._is_file and not read_only:
            self._db.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        self._compressor = BodyCompressor(self._db)
        self.objects = BodyObjects(page_store, lambda: str(self._db.value(_CRAWL_IDENTITY)))
        self._unput: _Added | None = None
        """What the last call added, while objects of it are not put."""

    @classmethod
    def open_read_only(cls, folder: Path) -> "PageStore":
        """The bodies of a data dir, also of one that may not be written."""
        return cls(folder, read_only=True, immutable=is_immutable(folder / PAGES))

    def add(self, documents: Sequence[NewDocument], on_put: Callable[[], None] = lambda: None) -> list[int]:
        """Store bodies durably; returns the ids of their pages, in order. A body that `equal_page` has is not repeated.

        Rows come before the objects of their bodies: a kill in between leaves no object that no row names. If objects
        cannot be put, the next call with the same documents goes on.
        Large bodies are compressed and written one by one, so that only one of their frames is in memory, unless they
        are packed already. `on_put`: called when an object is put, which may take seconds.
        """
        added = self._unput
        if added is None or [*map(id, added.documents)] != [*map(id, documents)]:
            added = self._unput = self._add_rows(documents)
        while added.frames:
            self.objects.put(added.frames[-_AT_ONCE:])
            del added.frames[-_AT_ONCE:]
            on_put()
        while added.large:
            place, document = added.large[-1]
            self.objects.put([(place, self._frame(document.body))])
            added.large.pop()
            on_put()
        self._unput = None
        # bodies that cannot be stored are added again
        self._compressor.add_samples(added.samples)
        return added.ids

    def _add_rows(self, documents: Sequence[NewDocument]) -> "_Added":
        for document in documents:
            _ = document.digest  # before the transactions, and while large bodies are in memory
        equal = {d.equal_page for d in documents if d.equal_page is not None and self._has_body(d.equal_page, d.body)}
        own = [document for document in documents if document.equal_page not in equal]
        small = {id(d): d.body.plain for d in own if d.size <= _LARGE_BODY_BYTES}
        plain = [body for body in small.values() if body is not None]
        assert len(plain) == len(small), "only large bodies are packed"
        frames = dict(zip(small, self._compressor.compress(plain), strict=True))
        with self._db.shared_transaction():
            added = _Added(documents, self._db.take_ids("pages", len(documents)))
            sources = dict(self._db.all(_SOURCES, (id_list(equal),))) if equal else {}
            pages: list[tuple[int, str, int | None, bytes]] = []
            for page, document in zip(added.ids, documents, strict=True):
                headers = orjson.dumps(document.headers).decode()
                if (source := sources.get(document.equal_page)) is not None:
                    pages.append((page, headers, source, b""))
                    continue
                frame = frames.get(id(document))
                if self.objects.takes(frame):
                    place = self.objects.place(page, document.body.digest)
                    pages.append((page, headers, None, place))
                    if frame is None:
                        added.large.append((place, document))
                    else:
                        added.frames.append((place, frame))
                    continue
                if frame is None:
                    frame = self._frame(document.body)
                if len(frame) > _LARGE_BODY_BYTES:
                    self._db.insert_large("pages", {"id": page, "headers": headers}, {"body": memoryview(frame)})
                else:
                    pages.append((page, headers, None, frame))
                if document.size > _LARGE_BODY_BYTES:
                    self._db.execute_values(_ADD_PAGE, pages)
                    pages = []
            self._db.execute_values(_ADD_PAGE, pages)
        added.samples = [d.body.plain for d in own if d.body.plain is not None]
        return added

    def _frame(self, body: Body) -> bytes:
        return body.frame or self._compressor.compress([body.read()])[0]

    def _has_body(self, page: int, body: Body) -> bool:
        """Whether a stored page has this body: its bytes are read, since a damaged one must not be used again."""
        try:
            stored = self.read(page)
        except DatabaseBusy:
            raise
        except StorageError:
            return False
        return stored is not None and body_digest(stored) == body.digest

    def read(self, page: int) -> bytes | None:
        """The body of a page; None: it is missing."""
        row = self.find(page)
        frame = None if row is None else self.objects.get(row[1])
        return None if frame is None else self._compressor.decompress(frame)

    def find(self, page: int) -> tuple[str, bytes] | None:
        """The headers of a page, and its frame or the place of its object; None: it is missing."""
        row = self._db.one(_BODY, (page,))
        return None if row is None else (row[0], row[1])

    def read_tagged(self, page: int) -> StoredBody | None:
        """The body of a page and its headers; None: it is missing."""
        row = self.find(page)
        frame = None if row is None else self.objects.get(row[1])
        return None if row is None or frame is None else self.unpack(row[0], frame)

    def unpack(self, headers: str, frame: bytes) -> StoredBody:
        """What `read_tagged` gives, of what it read."""
        body = Body(self._compressor.decompress(frame), frame, self._compressor.decompress)
        return StoredBody(body, to_headers(headers))

    def list_headers(self, pages: Iterable[int]) -> dict[int, tuple[tuple[str, str], ...]]:
        """By page its response headers; pages that are missing are left out."""
        return {page: to_headers(headers) for page, headers in self._db.all(_LIST_HEADERS, (id_list(pages),))}

    def iterate_sizes(self) -> Iterator[PageSize]:
        """The sizes of all pages, by their ids."""
        return self._db.iterate(PageSize, _SIZES)

    def reconcile(self, crawl: Database, run: int) -> int:
        """Invalidate documents whose bodies are missing, because this file was lost or replaced by an older copy.

        New pages get ids far above those of all documents, so that the same is detected for any older file. Returns
        how many were lost, and writes an event to `run`; repeated calls report nothing again.
        """
        last_document = int(crawl.value("SELECT max(id) FROM documents") or 0)
        if not self._is_file or int(self._db.value(_LAST_PAGE) or 0) >= last_document:
            return 0
        lost = self.list_lost(crawl)
        if lost:
            with crawl.transaction():
                mark_lost(crawl, lost)
                events.add(
                    crawl, run, [Event(time.time(), "WARNING", "supervisor", "page", lost_pages_message(len(lost)))]
                )
        with self._db.transaction():
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'pages'")
            self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('pages', ?)", (last_document + _ID_GAP,))
        return len(lost)

    def list_lost(self, crawl: Database) -> list[int]:
        """The reusable documents whose bodies are missing."""
        lost, last = list[int](), 0
        while ids := [int(row[0]) for row in crawl.all(_REUSABLE_DOCUMENTS, (last, _SCAN_BATCH))]:
            present = {int(row[0]) for row in self._db.all(_EXISTING_PAGES, (id_list(ids),))}
            lost += [id_ for id_ in ids if id_ not in present]
            last = ids[-1]
        return lost

    def delete_orphans(self, crawl: Database, *, batch: int = 500) -> int:
        """Delete bodies without a document; only while no job of this machine is leased. Returns how many.

        Other machines may not have committed theirs yet: while any node lives, all stay. Later ones write later pages.
        """
        deleted, last, newest = 0, 0, int(self._db.value(_LAST_PAGE) or 0)
        if not self._is_file and nodes.has_live(crawl):
            return 0
        while ids := [int(row[0]) for row in self._db.all(_PAGE_IDS, (last, newest, batch))]:
            used = {int(row[0]) for row in crawl.all(_EXISTING_DOCUMENTS.format(ids=placeholders(ids)), ids)}
            orphans = [id_ for id_ in ids if id_ not in used]
            if orphans:
                self.delete(orphans)
            deleted, last = deleted + len(orphans), ids[-1]
        if self._is_file:
            return deleted
        if half_deleted := [int(row[0]) for row in self._db.all(_HALF_DELETED, (newest,))]:
            self.delete(half_deleted)
        return deleted

    def delete(self, pages: Sequence[int]) -> None:
        """Delete pages; their documents must be gone or marked as pruned before. A body that others use stays.

        Objects are deleted before their rows, which no new page can use once they are marked.
        """
        ids = id_list(pages)
        with self._db.transaction():
            sources = id_list({int(source) for _, source in self._db.all(_SOURCES, (ids,))})
            self._db.execute(_DELETE_SHARING, (ids,))
            named = [] if self._is_file else self._db.all(_UNSHARED_OBJECTS, (ids, sources))
            objects = [bytes(place) for (place,) in named]
            if not objects:
                self._db.execute(_DELETE_UNSHARED, (ids,))
                self._db.execute(_DELETE_UNSHARED_DELETED, (sources,))
            self._db.execute(_MARK_DELETED, (ids,))
        if objects:
            self.objects.delete(objects)
            with self._db.transaction():
                self._db.execute(_DELETE_UNSHARED_DELETED, (ids,))
                self._db.execute(_DELETE_UNSHARED_DELETED, (sources,))

    def close(self) -> None:
        self._db.close()
