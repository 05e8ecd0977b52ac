"""Bodies in PostgreSQL: nodes of several machines write them side by side, and none is deleted too early."""

import threading

import pytest

from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.page_store import PageStore
from tests.contract.store.harness import StoreHarness, document


@pytest.fixture
def store(shared_store: StoreHarness) -> StoreHarness:
    return shared_store


@pytest.fixture
def pages(store: StoreHarness) -> PageStore:
    return PageStore(store.folder)


def test_nodes_add_bodies_side_by_side_while_a_crawl_is_locked(store: StoreHarness, pages: PageStore) -> None:
    other = connect(store.folder / PAGES)
    with store.db.transaction(), other.shared_transaction():
        theirs = other.take_ids("pages", 3)
        ours = pages.add([document(f"http://a/{i}", b"%d" % i) for i in range(5)])
    assert ours == sorted(ours)
    assert not set(ours) & set(theirs)
    assert [pages.read(page) for page in ours] == [b"0", b"1", b"2", b"3", b"4"]


def test_ids_are_not_used_again_after_a_failure_or_a_deletion(store: StoreHarness, pages: PageStore) -> None:
    other = connect(store.folder / PAGES)
    with pytest.raises(KeyError), other.shared_transaction():
        lost = other.take_ids("pages", 2)
        raise KeyError
    (first,) = pages.add([document("http://a/1")])
    pages.delete([first])
    (second,) = PageStore(store.folder).add([document("http://a/1")])
    assert max(lost) < first < second


def test_a_body_that_is_shared_meanwhile_is_not_deleted(store: StoreHarness, pages: PageStore) -> None:
    (first,) = pages.add([document("http://a/1", b"the same")])
    other = connect(store.folder / PAGES)
    deleting = threading.Thread(target=lambda: PageStore(store.folder).delete([first]))
    with other.shared_transaction():
        (second,) = other.take_ids("pages", 1)
        deleting.start()
        deleting.join(0.3)
        other.execute("INSERT INTO pages (id, headers, source, body) VALUES (?, '[]', ?, ?)", (second, first, b""))
    deleting.join()
    assert pages.read(first) is None
    assert pages.read(second) == b"the same"


def test_bodies_stay_while_a_node_may_commit_their_documents(store: StoreHarness, pages: PageStore) -> None:
    new = document("http://a/1", b"1")
    (page,) = pages.add([new])
    assert pages.delete_orphans(store.db) == 0
    with store.db.transaction():
        documents.add(store.db, store.run, [(page, new)])
    orphan = pages.add([document("http://a/2", b"2")])[0]
    store.end_nodes()
    assert pages.delete_orphans(store.db) == 1
    assert [pages.read(page), pages.read(orphan)] == [b"1", None]
