"""Lists the stored documents of a data dir, and finds one by its id or URL."""

from collections.abc import Iterator

from msgspec import Struct

from crawl_engine.model.job import document_key
from crawl_engine.store.db.connector import Database

_COLUMNS = """
d.id, d.url, d.status, d.content_type, d.size, d.fetched_at, d.checked_at, coalesce(r.id, '') AS run,
coalesce(c.id, '') AS checked_run, d.pruned AS is_pruned, d.key = x'' AS is_record
"""
_FROM = "documents d LEFT JOIN runs r ON r.seq = d.run LEFT JOIN runs c ON c.seq = d.checked_run"
_LIST = f"SELECT {_COLUMNS} FROM {_FROM} WHERE d.id < ? AND d.pruned = 0 ORDER BY d.id DESC LIMIT +?"
_LIST_OLDEST = f"SELECT {_COLUMNS} FROM {_FROM} WHERE d.id > ? AND d.pruned = 0 ORDER BY d.id LIMIT +?"
_BY_ID = f"SELECT {_COLUMNS} FROM {_FROM} WHERE d.id = ?"
_NEWEST = "ORDER BY max(d.fetched_at, coalesce(d.checked_at, 0)) DESC, d.id DESC LIMIT 1"
_BY_KEY = f"""
SELECT {_COLUMNS} FROM {_FROM} WHERE d.pruned = 0
    AND (d.key = ?1 OR d.id IN (SELECT document FROM document_aliases WHERE key = ?1)) {_NEWEST}
"""
# a scan: the document of a form, or one that is not reused
_BY_URL = f"SELECT {_COLUMNS} FROM {_FROM} WHERE d.url = ? AND d.pruned = 0 {_NEWEST}"
_BATCH = 500


class StoredDocument(Struct, frozen=True):
    id: int
    url: str
    """After redirects."""
    status: int
    content_type: str
    size: int
    """Bytes of its body, decoded."""
    fetched_at: float
    """Wall clock, seconds since 1970."""
    checked_at: float | None
    """When its site last said that it is unchanged."""
    run: str
    """The id of the run that fetched it; empty: that run was deleted."""
    checked_run: str
    """The id of the run to which its site said so; empty: to none, or that run was deleted."""
    is_pruned: int
    is_record: int
    """1: kept for people to read, such as the beginning of an answer that failed."""


def iterate(db: Database, *, oldest_first: bool = False) -> Iterator[StoredDocument]:
    """The documents that have a body, the newest first, or in the order in which they were stored."""
    sql, last = (_LIST_OLDEST, 0) if oldest_first else (_LIST, 2**62)
    while found := db.rows(StoredDocument, sql, (last, _BATCH)):
        yield from found
        last = found[-1].id


def get(db: Database, id_: int) -> StoredDocument | None:
    """The document, with or without a body."""
    return db.row(StoredDocument, _BY_ID, (id_,))


def find(db: Database, url: str) -> StoredDocument | None:
    """The newest document of a URL, or of one that leads to it."""
    return db.row(StoredDocument, _BY_KEY, (document_key(url),)) or db.row(StoredDocument, _BY_URL, (url,))
