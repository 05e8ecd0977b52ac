"""Writes and finds documents: fetched pages, whose bodies `page_store` stores before."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import orjson

from crawl_engine.errors import plural
from crawl_engine.model.content_digest import document_digest
from crawl_engine.model.job import StoredPage
from crawl_engine.store.db.connector import Database, id_list, placeholders
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages.body import Body
from crawl_engine.store.tables.outcome import Commit, JobOutcome, Served

_ADD = """
INSERT INTO documents (id, run, key, url, status, content_type, fetched_at, size, digest, recrawl_after, loader)
{values}
"""
_ADD_ALIAS = "INSERT INTO document_aliases (key, document) {values} ON CONFLICT DO NOTHING"
_GOOD = "d.status BETWEEN 200 AND 299 AND d.status NOT IN (204, 205, 206)"
_ASKED_AT = "max(d.fetched_at, coalesce(d.checked_at, 0))"
STORED_PAGE = """d.id AS "stored.page", d.url AS "stored.url", d.status AS "stored.status",
    d.content_type AS "stored.content_type", d.size AS "stored.size", d.fetched_at AS "stored.fetched_at",
    d.headers AS "stored.headers", d.loader AS "stored.loader"
"""
"""The columns of a document `d` for the field `stored` of a struct."""
_WITH_CHECK = f"""{STORED_PAGE}, {_ASKED_AT} AS "stored.asked_at", d.recrawl_after AS "stored.recrawl_after" """
_LIST_STORED = f"""
SELECT k.key, {_WITH_CHECK}, d.run = ?1 OR d.checked_run IS ?1 AS "stored.of_this_run" FROM (
    SELECT key, id FROM documents WHERE key IN ({{keys}})
    UNION ALL SELECT key, document FROM document_aliases WHERE key IN ({{keys}})
) k JOIN documents d ON d.id = k.id
WHERE d.pruned = 0 AND (d.run = ?1 OR d.checked_run IS ?1 OR ({_GOOD} AND {_ASKED_AT} > ?2))
ORDER BY d.fetched_at
"""
_LIST_GOOD = f"""
SELECT d.key, {_WITH_CHECK}, d.digest FROM documents d WHERE d.key IN ({{keys}}) AND d.pruned = 0 AND {_GOOD}
ORDER BY d.fetched_at
"""
_IS_OF_JOB = """
SELECT EXISTS (
    SELECT 1 FROM jobs j CROSS JOIN documents d
    CROSS JOIN jobs own ON own.run IN (j.run, d.run, d.checked_run) AND own.identity = j.identity
    WHERE j.id = :job AND d.id = :page AND own.document = d.id)
"""
# max(id) is one seek in the index of the key
_LIST_EQUAL = """
WITH k (key) AS ({values}) SELECT k.key, d.digest, d.id FROM k
CROSS JOIN documents d ON d.id = (SELECT max(id) FROM documents WHERE key = k.key)
"""
# the best first: a good one is asked for again, and the one that was asked for last is the newest. A sort of the whole
# table is faster than its index of keys
_BY_KEY = f"""
SELECT d.key, d.id, {_ASKED_AT}, d.pruned FROM documents d NOT INDEXED
ORDER BY d.key, {_GOOD} DESC, {_ASKED_AT} DESC, d.id DESC
"""
_MARK_CHECKED = """
WITH c (id, checked_at, run, recrawl_after, headers) AS ({values})
UPDATE documents SET checked_at = c.checked_at, checked_run = c.run,
    recrawl_after = coalesce(c.recrawl_after, documents.recrawl_after), headers = coalesce(c.headers, documents.headers)
FROM c WHERE documents.id = c.id
"""
_IDS_BY_KEY = """
SELECT d.id FROM documents d WHERE ? IN (d.run, d.checked_run) AND (d.key IN ({keys})
    OR d.id IN (SELECT document FROM document_aliases WHERE key IN ({keys})))
"""
_IDS_OF_RUN = """
SELECT d.id FROM json_each(?) i CROSS JOIN documents d ON d.id = i.value
WHERE ? IN (d.run, d.checked_run) AND d.key <> x''
"""
_INVALIDATE = "UPDATE documents SET key = x'' WHERE id IN (SELECT value FROM json_each(?))"
_MARK_PRUNED = "UPDATE documents SET key = x'', pruned = 1 WHERE id IN (SELECT value FROM json_each(?))"
_DELETE = "DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?))"
_DELETE_ALIASES_OF_KEYS = "DELETE FROM document_aliases WHERE key IN ({keys}) AND document IN ({ids})"
_DIGESTS = "SELECT d.id, d.digest FROM json_each(?) i CROSS JOIN documents d ON d.id = i.value"
_DELETE_ALIASES = "DELETE FROM document_aliases WHERE document IN (SELECT value FROM json_each(?))"


class NewDocument(Served, dict=True):
    """A fetched page, not yet stored. `keys`: that of its URL first, then those of URLs redirected to it.

    Without keys it is kept for people to read, and never reused.
    """

    keys: tuple[bytes, ...]
    url: str
    status: int
    content_type: str
    fetched_at: float
    headers: tuple[tuple[str, str], ...]
    body: Body
    recrawl_after: float | None = None
    """Seconds after which its page is asked for again; None: its group has no `recrawl`."""
    loader: str | None = None
    """What loaded it (`HostPlan.loading`)."""
    equal_page: int | None = None
    """The stored page that has the same body, if its digest tells the truth."""

    @property
    def size(self) -> int:
        return self.body.size

    @cached_property
    def digest(self) -> bytes:
        """The digest of URL, status and body."""
        return document_digest(self.url, self.status, self.body.digest)


class CheckedDocument(Served):
    """A stored document of which the site said that it is unchanged."""

    page: int
    checked_at: float
    """Wall clock, seconds since 1970."""
    recrawl_after: float | None = None
    """As that of `NewDocument`."""
    earlier_keys: tuple[bytes, ...] = ()
    """Of URLs that were redirected to it."""
    headers: tuple[tuple[str, str], ...] | None = None
    """Its headers as the answer changes them; None: they stay."""


class _KeyedDocument(NamedTuple):
    key: bytes
    stored: StoredPage
    digest: bytes | None = None


class OutdatedDocument(NamedTuple):
    """A document of which its URL has enough newer ones."""

    id: int
    asked_at: float
    """When its site last sent it, or said that it is unchanged."""
    is_pruned: bool


def to_headers(text: str) -> tuple[tuple[str, str], ...]:
    """The headers of a response as they are stored."""
    return tuple([(name, value) for name, value in orjson.loads(text)])


def lost_pages_message(count: int) -> str:
    pages = plural(count, "stored page")
    return f"{PAGES} has lost {pages}: they cannot be re-extracted, and jobs that need them fetch them again"


def add(db: Database, run: int, documents: Sequence[tuple[int, NewDocument]]) -> None:
    """Add the documents of stored bodies, with the ids of their pages."""
    # as bytearrays, which bind faster than bytes: Python looks for no adapter
    values = [
        (page, run, bytearray(d.keys[0] if d.keys else b""), d.url, d.status, d.content_type, d.fetched_at, d.size,
         bytearray(d.digest), d.recrawl_after, d.loader)
        for page, d in documents
    ]  # fmt: skip
    db.execute_values(_ADD, values)
    db.execute_values(_ADD_ALIAS, [(key, page) for page, d in documents for key in d.keys[1:]])


def find_equal(db: Database, documents: Sequence[NewDocument]) -> None:
    """Set `equal_page` of those that equal the newest stored document of their URL."""
    newest = {
        bytes(key): (digest, int(page))
        for key, digest, page in db.execute_values(_LIST_EQUAL, [(bytearray(d.keys[0]),) for d in documents if d.keys])
    }
    for document in documents:
        if document.keys:
            digest, page = newest.get(document.keys[0], (None, None))
            document.equal_page = page if digest == document.digest else None


def iterate_outdated(db: Database, *, keep: int) -> Iterator[OutdatedDocument]:
    """The documents that are not among the newest `keep` of their URL, and those without a key."""
    newest, place = b"", 0
    for key, id_, asked_at, is_pruned in db.execute(_BY_KEY):
        newest, place = key, place + 1 if key == newest else 1
        if not key or place > keep:
            yield OutdatedDocument(id_, asked_at, bool(is_pruned))


def has_earlier(db: Database, run: int) -> bool:
    """Whether earlier runs have left documents."""
    oldest = db.value("SELECT run FROM documents ORDER BY id LIMIT 1")
    return oldest is not None and oldest != run


def list_stored(db: Database, run: int, keys: Sequence[bytes], oldest: float) -> dict[bytes, list[StoredPage]]:
    """By key its documents, the newest last: any of this run, and the good ones asked for since `oldest` (wall clock).

    A document that the site called unchanged during the run is one of this run.
    """
    if not keys:
        return {}
    sql = _LIST_STORED.format(keys=",".join(f"?{number}" for number in range(3, len(keys) + 3)))
    stored: dict[bytes, list[StoredPage]] = {}
    for document in db.rows(_KeyedDocument, sql, (run, oldest, *keys)):
        stored.setdefault(document.key, []).append(document.stored)
    return stored


def list_good(db: Database, keys: Sequence[bytes]) -> dict[bytes, list[tuple[StoredPage, bytes | None]]]:
    """By key the good documents that were fetched under it, of whatever run, with their digests; the newest last."""
    good: dict[bytes, list[tuple[StoredPage, bytes | None]]] = {}
    for document in db.rows(_KeyedDocument, _LIST_GOOD.format(keys=placeholders(keys)), keys):
        good.setdefault(document.key, []).append((document.stored, document.digest))
    return good


def is_of_job(db: Database, job: int, page: int) -> bool:
    """Whether a document is the one that a job had, in its run or in the one that fetched or checked the document."""
    return bool(db.value(_IS_OF_JOB, {"job": job, "page": page}))


def write(commit: Commit, made: Sequence[tuple[JobOutcome, NewDocument]]) -> None:
    """Add fetched documents, whose bodies are stored."""
    add(commit.db, commit.run, [(outcome.page, document) for outcome, document in made if outcome.page])


def write_checked(commit: Commit, made: Sequence[tuple[JobOutcome, CheckedDocument]]) -> None:
    """Record that the site has no newer version of these documents: they count as fetched now."""
    mark_checked(commit.db, commit.run, [checked for _, checked in made])


def mark_checked(db: Database, run: int, checked: Sequence[CheckedDocument]) -> None:
    values = [
        (c.page, c.checked_at, run, c.recrawl_after, orjson.dumps(c.headers).decode() if c.headers else None)
        for c in checked
    ]
    db.execute_values(_MARK_CHECKED, values)
    db.execute_values(_ADD_ALIAS, [(key, c.page) for c in checked for key in c.earlier_keys])


def invalidate(db: Database, run: int, keys: Sequence[bytes]) -> None:
    """Stop reusing the documents that this run fetched under these keys; their jobs still refer to them."""
    marks = placeholders(keys)
    ids = db.column(_IDS_BY_KEY.format(keys=marks), (run, *keys, *keys))
    if ids:
        db.execute(_DELETE_ALIASES_OF_KEYS.format(keys=marks, ids=placeholders(ids)), (*keys, *ids))
        invalidate_ids(db, ids)


def invalidate_of_run(db: Database, run: int, ids: Sequence[int]) -> None:
    """Stop reusing those of these documents that this run fetched or checked, also under URLs redirected to them."""
    mark_lost(db, db.column(_IDS_OF_RUN, (id_list(ids), run)))


def invalidate_ids(db: Database, ids: Sequence[int]) -> None:
    """Stop reusing documents."""
    db.execute(_INVALIDATE, (id_list(ids),))


def mark_lost(db: Database, ids: Sequence[int]) -> None:
    """Stop reusing documents whose bodies are missing, also under the URLs redirected to them."""
    db.execute(_DELETE_ALIASES, (id_list(ids),))
    invalidate_ids(db, ids)


def mark_pruned(db: Database, ids: Sequence[int]) -> None:
    """Record that the bodies of documents are about to be deleted: they are no longer reused."""
    db.execute(_DELETE_ALIASES, (id_list(ids),))
    db.execute(_MARK_PRUNED, (id_list(ids),))


def delete(db: Database, ids: Sequence[int]) -> None:
    """Delete documents to which no job refers, before their bodies."""
    db.execute(_DELETE_ALIASES, (id_list(ids),))
    db.execute(_DELETE, (id_list(ids),))


def list_digests(db: Database, ids: Iterable[int]) -> dict[int, bytes | None]:
    return dict(db.all(_DIGESTS, (id_list(ids),)))


def get_metadata(db: Database, document: int) -> tuple[str, int, str, int, float] | None:
    """URL, status, content type, bytes and fetch time; None: it is gone."""
    row = db.one("SELECT url, status, content_type, size, fetched_at FROM documents WHERE id = ?", (document,))
    return None if row is None else (row[0], row[1], row[2], row[3], row[4])


def get_changed_headers(db: Database, document: int) -> tuple[tuple[str, str], ...]:
    """The headers of a document as later answers changed them; empty: they are those of its page."""
    headers = db.value("SELECT headers FROM documents WHERE id = ?", (document,))
    return to_headers(headers) if headers else ()


def get_headers(db: Database, pages: Database, document: int) -> tuple[tuple[str, str], ...]:
    if changed := get_changed_headers(db, document):
        return changed
    headers = pages.value("SELECT headers FROM pages WHERE id = ?", (document,))
    return to_headers(headers) if headers else ()
