"""Documents beyond limits lose their bodies; what the unfinished run needs and the newest of each URL stay."""

import time
from collections.abc import Iterator

import pytest

from crawl_engine.model.job import document_key
from crawl_engine.model.run import Limits, RunState
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import CheckedDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.prune import choose_documents, prune_documents
from tests.contract.store.harness import StoreHarness, document

DAY = 86_400.0
URLS = ("http://a/1", "http://a/2")


@pytest.fixture
def pages(store: StoreHarness) -> Iterator[PageStore]:
    opened = PageStore(store.folder)
    yield opened
    opened.close()


def end_run(store: StoreHarness) -> None:
    """The run is DONE, and a next one begins."""
    store.end_nodes()
    with store.db.transaction():
        store.db.execute("UPDATE runs SET state = 'DONE' WHERE seq = ?", (store.run,))
        store.run = runs.create(store.db, None, 0.0).seq
        store.db.execute("UPDATE runs SET state = ?, slots = 64 WHERE seq = ?", (RunState.READY, store.run))
    store.places = store.new_places()
    store.nodes = [store.node()]


def fetch_all(store: StoreHarness, pages: PageStore, *, body: bytes, days: float) -> list[int]:
    """A run that fetches the pages so many days ago; returns their documents."""
    store.seed(*URLS)
    outcomes = []
    jobs = store.take(URLS[0])
    assert len(jobs) == len(URLS)
    for job in jobs:
        new = document(job.url, body, at=time.time() - days * DAY)
        documents.find_equal(store.db, [new])
        (page,) = pages.add([new])
        outcomes.append(store.done(job, new, page=page))
    store.commit(*outcomes)
    return [outcome.page or 0 for outcome in outcomes]


def three_runs(store: StoreHarness, pages: PageStore, *bodies: bytes) -> list[list[int]]:
    """Two runs that are DONE, and an unfinished one."""
    made = []
    for number, body in enumerate(bodies):
        if number:
            end_run(store)
        made.append(fetch_all(store, pages, body=body, days=30 - 10 * number))
    return made


def prune(store: StoreHarness, pages: PageStore, **limits: float) -> list[int]:
    """The documents that had a body and have none now."""
    before = with_body(store)
    choice = choose_documents(store.db, pages, Limits(**limits))  # type: ignore[arg-type]
    assert sum(prune_documents(store.db, pages, choice)) == len(choice.ids)
    assert sum(page.headers + page.body for page in pages.iterate_sizes()) == choice.left
    left = with_body(store)
    assert all(pages.read(page) is not None for page in left)
    assert pages.delete_orphans(store.db) == 0
    return [page for page in before if page not in left]


def with_body(store: StoreHarness) -> list[int]:
    return [row[0] for row in store.db.all("SELECT id FROM documents WHERE pruned = 0 ORDER BY id")]


@pytest.mark.parametrize("bodies", [(b"1", b"2", b"3"), (b"same", b"same", b"same")])
def test_the_newest_of_each_url_and_the_documents_of_the_last_done_run_stay(
    store: StoreHarness, pages: PageStore, bodies: tuple[bytes, ...]
) -> None:
    first, _, last = three_runs(store, pages, *bodies)
    assert prune(store, pages, keep=3) == []
    assert prune(store, pages, keep=1) == first
    assert pages.read(last[0]) == bodies[2]
    assert store.db.value("SELECT count(*) FROM jobs WHERE document IS NOT NULL") == 6
    newest = documents.list_good(store.db, [document_key(URLS[0])])
    assert newest[document_key(URLS[0])][-1][0].page == last[0]


@pytest.mark.parametrize("bodies", [(b"1", b"2", b"3"), (b"same", b"same", b"same")])
def test_keep_0_leaves_what_the_unfinished_run_has(
    store: StoreHarness, pages: PageStore, bodies: tuple[bytes, ...]
) -> None:
    first, second, last = three_runs(store, pages, *bodies)
    assert prune(store, pages, keep=0) == [*first, *second]
    end_run(store)
    assert prune(store, pages, keep=0) == last
    assert list(pages.iterate_sizes()) == []
    assert documents.list_good(store.db, [document_key(URLS[0])]) == {}


def test_what_the_unfinished_run_found_unchanged_or_used_stays(store: StoreHarness, pages: PageStore) -> None:
    first = fetch_all(store, pages, body=b"1", days=9)
    end_run(store)
    store.seed(*URLS)
    checked, used = store.take(URLS[0])
    same = CheckedDocument(first[0], time.time())
    store.commit(store.done(checked, same, page=first[0]), store.done(used, page=first[1]))
    assert prune(store, pages, keep=0) == []


def test_old_documents_go(store: StoreHarness, pages: PageStore) -> None:
    three = three_runs(store, pages, b"1", b"2", b"3")
    end_run(store)
    end_run(store)
    assert prune(store, pages, older_than=40 * DAY) == []
    assert prune(store, pages, older_than=15 * DAY) == [*three[0], *three[1]]
    assert prune(store, pages, older_than=0.0) == [], "the newest of each URL"


def test_a_page_that_is_unchanged_is_as_old_as_its_last_check(store: StoreHarness, pages: PageStore) -> None:
    (first, _), _, _ = three_runs(store, pages, b"1", b"2", b"3")
    with store.db.transaction():
        documents.mark_checked(store.db, 99, [CheckedDocument(first, time.time())])
    assert first not in prune(store, pages, older_than=25 * DAY)


def test_the_oldest_go_until_the_rest_is_small_enough(store: StoreHarness, pages: PageStore) -> None:
    bodies = [bytes([number]) * 9 + bytes(range(256)) * 40 for number in range(3)]
    three = three_runs(store, pages, *bodies)
    sizes = {page.id: page.headers + page.body for page in pages.iterate_sizes()}
    end_run(store)
    assert prune(store, pages, max_bytes=sum(sizes.values())) == []
    assert prune(store, pages, max_bytes=sum(sizes.values()) - 1) == three[0][:1]
    assert prune(store, pages, max_bytes=0) == [*three[0][1:], *three[1]]


def test_a_shared_body_counts_as_freed_with_its_last_document(store: StoreHarness, pages: PageStore) -> None:
    three_runs(store, pages, b"same", b"same", b"same")
    total = sum(page.headers + page.body for page in pages.iterate_sizes())
    end_run(store)
    choice = choose_documents(store.db, pages, Limits(keep=0))
    assert (choice.bytes, choice.left) == (total, 0)


def test_a_prune_that_was_killed_is_finished_by_the_next(store: StoreHarness, pages: PageStore) -> None:
    first, _, _ = three_runs(store, pages, b"same", b"same", b"same")
    with store.db.transaction():
        documents.mark_pruned(store.db, first)  # killed before the bodies
    assert prune(store, pages, keep=1) == []
    assert {page.id for page in pages.iterate_sizes()} >= {*first}, "others use these bodies"
    end_run(store)
    store.end_nodes()
    prune(store, pages, keep=0)
    assert list(pages.iterate_sizes()) == []
