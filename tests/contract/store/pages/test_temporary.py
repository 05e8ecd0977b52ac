"""Bodies of temporary documents are deleted once their run has ended, whatever was interrupted."""

from collections.abc import Iterator

import pytest

from crawl_engine.errors import StorageError
from crawl_engine.model.definition import Definitions, Task, TaskGroup
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages import documents, temporary
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.pages.temporary import DocumentUse
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs, versions
from tests.contract.store.harness import StoreHarness, document

KEY = document("http://a/0").keys[0]


@pytest.fixture
def pages(store: StoreHarness) -> Iterator[PageStore]:
    opened = PageStore(store.folder)
    yield opened
    opened.close()


def fetch(store: StoreHarness, pages: PageStore, count: int, *, keeps: bool | None = False) -> list[int]:
    """Fetch pages for a group that keeps documents or not; returns their ids."""
    store.seed(*[f"http://a/{i}" for i in range(count)])
    outcomes: list[JobOutcome] = []
    for job in store.take("http://a/0"):
        fetched = document(job.url)
        (page,) = pages.add([fetched])
        uses = () if keeps is None else (DocumentUse(keeps),)
        outcomes.append(store.done(job, fetched, *uses, page=page))
    store.commit(*outcomes)
    return [outcome.page for outcome in outcomes if outcome.page is not None]


def marked(store: StoreHarness) -> list[int]:
    return [int(page) for (page,) in store.db.all("SELECT document FROM temporary_documents")]


def stored(store: StoreHarness) -> list[int]:
    db = connect(store.folder / PAGES, read_only=True)
    try:
        return [int(page) for (page,) in db.all("SELECT id FROM pages ORDER BY id")]
    finally:
        db.close()


def end(store: StoreHarness) -> None:
    with store.db.transaction():
        temporary.mark_ended(store.db, store.run)


def test_bodies_stay_until_the_run_has_ended(store: StoreHarness, pages: PageStore) -> None:
    ids = fetch(store, pages, 3)
    assert marked(store) == ids
    assert temporary.delete_ended(store.db, pages) == 0
    assert temporary.begin(store.db, pages, store.run) == 0, "it is resumed"
    assert documents.list_stored(store.db, store.run, [KEY], float("inf"))
    end(store)
    assert temporary.delete_ended(store.db, pages) == 3
    assert (marked(store), stored(store)) == ([], [])
    assert not documents.list_stored(store.db, store.run, [KEY], float("inf")), "not reused, even by its run"


def test_a_run_that_was_not_finished_loses_them_to_the_next(store: StoreHarness, pages: PageStore) -> None:
    fetch(store, pages, 3)
    with store.db.transaction():
        runs.create(store.db, None, 0.0)
    assert temporary.begin(store.db, pages, store.run + 1) == 3
    assert stored(store) == []


def test_a_reopened_run_keeps_what_it_fetches_then(store: StoreHarness, pages: PageStore) -> None:
    fetch(store, pages, 1)
    end(store)
    assert temporary.begin(store.db, pages, store.run) == 1
    store.seed("http://a/new")
    (job,) = store.take("http://a/new")
    (page,) = pages.add([document(job.url)])
    store.commit(store.done(job, document(job.url), DocumentUse(keeps=False), page=page))
    assert temporary.begin(store.db, pages, store.run) == 0
    assert stored(store) == [page]


def test_a_document_that_a_group_with_documents_uses_is_kept(store: StoreHarness, pages: PageStore) -> None:
    first, second = fetch(store, pages, 2)
    store.seed("http://b/1")
    (job,) = store.take("http://b/1")
    store.commit(store.done(job, DocumentUse(keeps=True), page=first))
    end(store)
    assert temporary.delete_ended(store.db, pages) == 1
    assert stored(store) == [first]
    assert store.db.all("SELECT id FROM documents WHERE pruned = 1") == [(second,)]


@pytest.mark.parametrize("keeps", [True, None])
def test_other_groups_mark_nothing(store: StoreHarness, pages: PageStore, keeps: bool | None) -> None:
    fetch(store, pages, 2, keeps=keeps)
    assert not temporary.has_any(store.db)


def test_defs_that_keep_the_documents_later_keep_them_all(store: StoreHarness, pages: PageStore) -> None:
    fetch(store, pages, 2)
    with store.db.transaction():
        groups = (TaskGroup(name="g", tasks=(Task(name="t", data_def="book"),)),)
        runs.set_version(store.db, store.run, versions.publish(store.db, Definitions(task_groups=groups), 0.0))
    end(store)
    assert temporary.delete_ended(store.db, pages) == 0
    assert (marked(store), len(stored(store))) == ([], 2)


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_crash_between_the_steps_leaves_nothing(
    store: StoreHarness, pages: PageStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fetch(store, pages, 2)
    end(store)
    delete = PageStore.delete

    def crash(self: PageStore, ids: list[int]) -> None:
        if step == "after":
            delete(self, ids)
        raise StorageError("it crashed", "")

    with monkeypatch.context() as patched:
        patched.setattr(PageStore, "delete", crash)
        with pytest.raises(StorageError):
            temporary.delete_ended(store.db, pages)
    assert not documents.list_stored(store.db, store.run, [KEY], float("inf")), "its reference was cleared first"
    assert len(marked(store)) == 2
    assert temporary.begin(store.db, pages, store.run) == 2
    assert (marked(store), stored(store)) == ([], [])


def test_a_stop_leaves_the_rest_for_later(store: StoreHarness, pages: PageStore) -> None:
    fetch(store, pages, 2)
    end(store)
    assert temporary.delete_ended(store.db, pages, stop=lambda: True) == 0
    assert temporary.delete_ended(store.db, pages) == 2


def test_without_such_a_group_no_statement_is_added(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    outcome = store.done(job, document("http://a/1"), page=1)
    assert not [sql for sql, _ in store.plans(lambda: store.commit(outcome)) if "temporary_documents" in sql]
