"""A page that is unchanged is stored once: its documents share one body, until the last of them is deleted."""

from collections.abc import Iterator, Sequence

import pytest

from crawl_engine.model.job import document_key
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.transactions.unused import DocumentSet, delete_unused
from tests.contract.store.harness import StoreHarness, document

URL, BODY = "http://a/1", b"<p>the same</p>" * 50


@pytest.fixture
def pages(store: StoreHarness) -> Iterator[PageStore]:
    opened = PageStore(store.folder)
    yield opened
    opened.close()


def store_page(store: StoreHarness, pages: PageStore, new: NewDocument, run: int = 1) -> int:
    """Store a fetched page as the committer does; returns its id."""
    documents.find_equal(store.db, [new])
    (page,) = pages.add([new])
    with store.db.transaction():
        documents.add(store.db, run, [(page, new)])
    return page


def bodies(store: StoreHarness) -> dict[int, tuple[int | None, bool]]:
    """By page in pages.db: whose body it has, and whether it is its own."""
    db = connect(store.folder / PAGES, read_only=True)
    try:
        return {row[0]: (row[1], row[2]) for row in db.all("SELECT id, source, body <> x'' FROM pages")}
    finally:
        db.close()


def test_an_unchanged_page_has_one_body_and_the_headers_of_each_answer(store: StoreHarness, pages: PageStore) -> None:
    made = []
    for etag in ("a", "b", "c"):
        new = document(URL, BODY, at=float(len(made)))
        new.headers = (("etag", etag),)
        made.append(store_page(store, pages, new, run=len(made) + 1))
    assert bodies(store) == {1: (None, True), 2: (1, False), 3: (1, False)}
    assert [pages.read(page) for page in made] == [BODY] * 3
    assert pages.list_headers(made) == {1: (("etag", "a"),), 2: (("etag", "b"),), 3: (("etag", "c"),)}
    tagged = pages.read_tagged(3)
    assert tagged is not None
    assert tagged.body.read() == BODY


@pytest.mark.parametrize(
    "other", [document(URL, b"<p>another</p>"), document("http://a/2", BODY), document(URL, BODY, at=9.0)]
)
def test_another_body_url_or_status_is_stored_by_itself(
    store: StoreHarness, pages: PageStore, other: NewDocument
) -> None:
    store_page(store, pages, document(URL, BODY))
    other.status = 404 if other.fetched_at == 9.0 else 200
    store_page(store, pages, other)
    assert bodies(store) == {1: (None, True), 2: (None, True)}


def test_a_damaged_or_missing_body_is_not_used_again(store: StoreHarness, pages: PageStore) -> None:
    for damage in ("UPDATE pages SET body = x'00' WHERE id = ?", "DELETE FROM pages WHERE id = ?"):
        damaged = store_page(store, pages, document(URL, BODY))
        with pages._db.transaction():
            pages._db.execute(damage, (damaged,))
        mended = store_page(store, pages, document(URL, BODY))
        assert bodies(store)[mended] == (None, True)
        assert pages.read(mended) == BODY


def test_a_large_body_is_shared(store: StoreHarness, pages: PageStore) -> None:
    large = bytes(range(256)) * 8_000
    for _ in range(2):
        new = document(URL, large)
        new.body.pack()
        new.body.keep_packed()
        store_page(store, pages, new)
    assert bodies(store) == {1: (None, True), 2: (1, False)}
    assert pages.read(2) == large


@pytest.mark.parametrize("order", [[1, 2, 3], [3, 2, 1], [2, 1, 3], [2, 3, 1]])
def test_a_body_is_deleted_with_the_last_page_that_has_it(
    store: StoreHarness, pages: PageStore, order: Sequence[int]
) -> None:
    for run in (1, 2, 3):
        store_page(store, pages, document(URL, BODY), run)
    for count, page in enumerate(order, 1):
        with store.db.transaction():
            documents.mark_pruned(store.db, [page])
        pages.delete([page])
        assert pages.read(page) is None
        assert pages.list_headers([page]) == {}
        left = order[count:]
        assert [pages.read(other) for other in left] == [BODY] * len(left)
        assert pages.delete_orphans(store.db) == 0
    assert bodies(store) == {}


def test_a_page_and_those_that_share_its_body_are_deleted_together(store: StoreHarness, pages: PageStore) -> None:
    for run in (1, 2, 3):
        store_page(store, pages, document(URL, BODY), run)
    pages.delete([1, 2, 3])
    assert bodies(store) == {}


def test_bodies_of_pruned_documents_are_swept_after_a_kill(store: StoreHarness, pages: PageStore) -> None:
    for run in (1, 2):
        store_page(store, pages, document(URL, BODY), run)
    with store.db.transaction():
        documents.mark_pruned(store.db, [1])  # and the process is killed
    store.end_nodes()
    assert pages.delete_orphans(store.db) == 1
    assert pages.read(2) == BODY
    with store.db.transaction():
        documents.mark_pruned(store.db, [2])
    assert pages.delete_orphans(store.db) == 1
    assert bodies(store) == {}


# Documents to which no job refers.


def fetch(store: StoreHarness, pages: PageStore, url: str, at: float) -> int:
    """A job that fetched a page; returns the document."""
    store.seed(url, name=f"of {at}")
    (job,) = store.take(url)
    new = document(url, b"%f" % at, at=at)
    (page,) = pages.add([new])
    store.commit(store.done(job, new, page=page))
    return page


def test_unused_documents_are_deleted_but_for_the_newest_of_a_url(store: StoreHarness, pages: PageStore) -> None:
    made = [fetch(store, pages, URL, at) for at in (1.0, 3.0, 2.0)]
    assert sum(delete_unused(store.db, pages)) == 0, "jobs refer to them"
    store.db.execute("DELETE FROM jobs")
    with store.db.transaction():
        store.db.execute("INSERT INTO document_aliases (key, document) VALUES (x'01', ?), (x'02', ?)", made[:2])
    assert sum(delete_unused(store.db, pages)) == 2
    assert store.db.all("SELECT id FROM documents") == [(made[1],)]
    assert store.db.all("SELECT document FROM document_aliases") == [(made[1],)]
    assert list(bodies(store)) == [made[1]]
    newest = documents.list_good(store.db, [document_key(URL)])
    assert newest[document_key(URL)][-1][0].page == made[1]


def test_a_bad_answer_does_not_replace_the_last_good_one(store: StoreHarness, pages: PageStore) -> None:
    good = store_page(store, pages, document(URL, BODY, at=1.0))
    gone = document(URL, b"gone", at=2.0)
    gone.status = 404
    store_page(store, pages, gone)
    assert sum(delete_unused(store.db, pages)) == 1
    assert store.db.all("SELECT id FROM documents") == [(good,)]


def test_documents_without_a_key_are_deleted_once_no_job_refers_to_them(store: StoreHarness, pages: PageStore) -> None:
    page = fetch(store, pages, URL, 1.0)
    with store.db.transaction():
        documents.invalidate(store.db, store.run, [document_key(URL)])
    assert sum(delete_unused(store.db, pages)) == 0
    store.db.execute("DELETE FROM jobs")
    assert sum(delete_unused(store.db, pages)) == 1
    assert (pages.read(page), store.db.all("SELECT id FROM documents")) == (None, [])


def test_a_set_of_documents_has_what_was_added() -> None:
    chosen = {0, 1, 7, 8, 63, 9_999, 10_000_000}
    used = DocumentSet()
    for id_ in chosen:
        used.add(id_)
    assert {id_ for id_ in (*chosen, 2, 9, 64, 10_000_001, 2**40) if id_ in used} == chosen
