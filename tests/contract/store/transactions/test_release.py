"""Rows that wait for files: held in the commit of their page, written by that of their last file, once."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_console.filter_syntax import parse
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.release import release_ended
from crawl_engine.store.transactions.retry import retry
from crawl_engine.store.transactions.supersede import OldRows
from tests.contract.store.filed import (
    check,
    downloaded,
    file_child,
    held_row,
    held_rows,
    page,
    stored,
    take_files,
    values,
    waiting,
)
from tests.contract.store.harness import StoreHarness, again, document, failed
from tests.contract.store.shop import Shop, defs

NewStore = Callable[..., StoreHarness]


def test_the_last_file_of_a_row_writes_it(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    one = held_row("one", "http://f/x", "http://f/y", "http://f/x")
    store.commit(page(store, job, one, held_row("two", "http://f/y"), data=['{"title":"plain"}']))
    check(store)
    assert (values(store), waiting(store)) == ([{"title": "plain"}], ["one", "two"])
    files = take_files(store)
    store.commit(downloaded(store, files["y"]))
    check(store)
    assert waiting(store) == ["one"]
    store.commit(downloaded(store, files["x"]))
    check(store)
    x, y = (stored(f"http://f/{name}").to_value(f"http://f/{name}") for name in "xy")
    assert values(store)[1:] == [
        {"title": "two", "file": y, "more": []}, {"title": "one", "file": x, "more": [y, x]},
    ]  # fmt: skip
    assert not waiting(store)
    assert store.db.value("SELECT rows FROM row_counts") == 3


@pytest.mark.parametrize("state", ["FAILED", "SKIPPED"])
def test_a_file_that_was_not_downloaded_leaves_null(store: StoreHarness, state: str) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(page(store, job, held_row("one", "http://f/x", "http://f/y")))
    files = take_files(store)
    store.commit(downloaded(store, files["x"]), replace(failed(files["y"]), state=JobState(state)))
    check(store)
    assert values(store) == [{"title": "one", "file": stored("http://f/x").to_value("http://f/x"), "more": [None]}]


def test_a_file_is_one_job_and_fills_rows_of_pages_that_come_later_at_once(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(page(store, one, held_row("one", "http://f/x")))
    (file,) = take_files(store).values()
    store.commit(downloaded(store, file), page(store, two, held_row("two", "http://f/x")))
    check(store)
    assert {row["title"]: row["file"] for row in values(store)} == dict.fromkeys(
        ("one", "two"), stored("http://f/x").to_value("http://f/x")
    )
    assert (
        store.db.value("SELECT count(*) FROM jobs j JOIN sequences s ON s.id = j.sequence WHERE s.kind = 'file'") == 1
    )


def test_a_row_keeps_the_digits_of_its_numbers(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    row = held_row("t", "http://f/x").replace('"t"', "[1116.90,1e400,123456789012345678901234567890,-0.0]")
    store.commit(page(store, job, row))
    store.commit(downloaded(store, take_files(store)["x"]))
    ((_, data),) = store.rows()
    assert data.startswith('{"title":[1116.90,1e400,123456789012345678901234567890,-0.0],"file":{"path":"files/')


def test_a_retried_file_keeps_rows_waiting_and_a_lost_lease_writes_nothing(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(page(store, job, held_row("one", "http://f/x")))
    (first,) = take_files(store).values()
    store.commit(again(first))
    assert waiting(store) == ["one"]
    (second,) = take_files(store).values()
    assert not store.commit(downloaded(store, first)).accepted_ids
    assert (values(store), store.db.value("SELECT count(*) FROM files")) == ([], 0)
    store.commit(downloaded(store, second))
    assert len(values(store)) == 1
    check(store)


def test_a_retry_of_the_page_takes_its_rows_back_and_uses_the_file_again(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    rows = held_row("one", "http://f/x"), held_row("two", "http://f/y")
    store.commit(page(store, job, *rows))
    files = take_files(store)
    store.commit(downloaded(store, files["x"]))
    assert retry(store.db, store.run, parse("state:done kind:page")) == 1
    check(store)
    assert (values(store), waiting(store)) == ([], [])
    store.commit(downloaded(store, files["y"]))
    assert values(store) == [], "its page is not done"
    (job,) = store.take("http://a/")
    store.commit(page(store, job, *rows))
    check(store)
    assert sorted(row["title"] for row in values(store)) == ["one", "two"]


def test_a_retried_file_rewrites_no_row(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(page(store, job, held_row("one", "http://f/x")))
    store.commit(failed(take_files(store)["x"]))
    before = store.rows()
    assert retry(store.db, store.run, parse("kind:file")) == 1
    store.commit(downloaded(store, take_files(store)["x"]))
    assert store.rows() == before
    check(store)


def test_a_re_extraction_replaces_waiting_rows_but_for_those_of_kept_data_defs(new_store: NewStore) -> None:
    shop = Shop(new_store(), pages=0)
    store = shop.store
    store.book = shop.ids["book"]
    store.seed("http://a/0")
    (job,) = store.take("http://a/0")
    shelf = held_rows("shelf", shop.ids["shelf"], [held_row("shelf", "http://f/x")])
    effects = shelf, document(job.url)
    store.commit(page(store, job, held_row("old", "http://f/x"), effects=effects, page=1))
    check(store)
    kept = shop.ids["shelf"]
    shop.publish(defs("title", "price"))
    shop.queue()
    (extract,) = shop.lease().jobs
    store.book = shop.ids["book"]
    store.commit(page(store, extract, held_row("new", "http://f/x"), effects=[OldRows((kept,))]))
    check(store)
    assert waiting(store) == ["shelf", "new"]
    store.commit(downloaded(store, take_files(store)["x"]))
    check(store)
    assert [row["title"] for row in values(store)] == ["shelf", "new"]


def test_files_that_end_without_a_commit_are_released_before_the_run_ends(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    pages = store.take("http://a/")
    store.commit(*[page(store, job, held_row(job.url, f"http://f/{i}")) for i, job in enumerate(pages)])
    sequence = store.place("http://f/", kind=JobKind.FILE).sequence
    with store.db.transaction():
        assert jobs.skip_ready(store.db, sequence, "the group is gone", 1) == 1
    assert len(waiting(store)) == 2
    with store.db.transaction():
        assert release_ended(store.db, store.run)
        assert not release_ended(store.db, store.run)
    check(store)
    assert (len(values(store)), len(waiting(store))) == (1, 1)


def test_a_page_of_a_removed_group_waits_for_no_file(new_store: NewStore) -> None:
    """Its links create no jobs: what they name is null."""
    shop = Shop(new_store(), pages=0)
    store = shop.store
    store.book = shop.ids["book"]
    store.seed("http://a/0")
    (job,) = store.take("http://a/0")
    shop.publish(defs("title", groups=["other"]))
    store.commit(page(store, job, held_row("one", "http://f/x")))
    check(store)
    assert values(store) == [{"title": "one", "file": None, "more": []}]


def test_pages_without_files_run_no_statement_for_them(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    statements = [text for text, _ in store.plans(lambda: store.commit(store.done(job, data=["{}"])))]
    assert not [text for text in statements if "held" in text or "files" in text]


def test_statements_read_no_whole_table(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(page(store, one, held_row("one", "http://f/x"), held_row("two", "http://f/y")))
    files = take_files(store)

    def work() -> None:
        store.commit(downloaded(store, files["x"]), page(store, two, held_row("three", "http://f/x")))

    of_files = [plan for plan in store.plans(work) if "held_" in plan[0] or " files" in plan[0]]
    assert len(of_files) >= 7
    scanned = [line.split()[1] for _, lines in of_files for line in lines if line.startswith("SCAN")]
    assert set(scanned) <= {"i", "k", "r", "d", "json_each", "CONSTANT", "2-ROW"}, scanned


def test_a_transaction_that_fails_at_any_statement_changes_nothing(new_store: NewStore) -> None:
    """Each statement in turn fails, as a busy database has it; the commit is then repeated."""
    failures = 0
    step = 1 if isinstance(new_store().db, SqliteDatabase) else 6  # a store of PostgreSQL takes longer to create
    for number in range(1, 400, step):
        store = new_store()
        second = prepare(store)
        if not fails_at(store, number, second):
            break
        failures += 1
        assert (values(store), waiting(store)) == ([], ["one", "two"])
        check(store)
        store.commit(*second)
        check(store)
        assert sorted(row["title"] for row in values(store)) == ["one", "three", "two"]
    assert 20 < failures * step < 399


def prepare(store: StoreHarness) -> list[JobOutcome]:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(page(store, one, held_row("one", "http://f/x"), held_row("two", "http://f/x", "http://f/y")))
    files = take_files(store)
    third = page(store, two, held_row("three", "http://f/y"))
    return [downloaded(store, files["x"]), downloaded(store, files["y"]), third]


def fails_at(store: StoreHarness, number: int, outcomes: list[JobOutcome]) -> bool:
    """Whether the n-th statement of the commit could be made to fail."""
    count = 0

    def failing(run: Callable[..., Any]) -> Callable[..., Any]:
        def execute(sql: str, *given: Any, **more: Any) -> Any:
            nonlocal count
            if not sql.startswith(("BEGIN", "ROLLBACK", "SAVEPOINT", "RELEASE")):
                count += 1
                if count == number:
                    store.db._rollback()
                    raise DatabaseBusy("locked", "")
            return run(sql, *given, **more)

        return execute

    with pytest.MonkeyPatch.context() as patch:
        for name in ("execute", "execute_values"):
            patch.setattr(store.db, name, failing(getattr(store.db, name)))
        try:
            store.commit(*outcomes)
        except DatabaseBusy:
            return True
    return False


def test_the_name_of_a_child_is_that_of_the_file_alone() -> None:
    """So that two groups share a download."""
    assert file_child("http://f/x", "g").identity == file_child("http://f/x", "h").identity


def test_the_first_death_of_a_node_during_a_download_is_an_attempt(store: StoreHarness) -> None:
    """A suspect is worked alone: the downloads of a dead node would follow one another."""
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(page(store, job, held_row("one", "http://f/x")))
    seen = []
    while take_files(store):
        with store.db.transaction():
            jobs.release(store.db, store.nodes[0], "node n1 died", crashed=True)
        seen += store.db.all("SELECT state, crashes, attempts FROM jobs WHERE url = 'http://f/x'")
    assert seen == [("READY", 0, 1), ("READY", 1, 1), ("READY", 2, 1), ("FAILED", 3, 1)]
    with store.db.transaction():
        assert release_ended(store.db, store.run)
    assert values(store) == [{"title": "one", "file": None, "more": []}]
    check(store)


def test_a_file_that_very_many_rows_name_releases_them_in_parts(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_engine.store.transactions.release._MAX_RELEASED", 3)
    monkeypatch.setattr("crawl_engine.store.transactions.release._BATCH", 2)
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(page(store, job, *[held_row(str(i), "http://f/x") for i in range(8)]))
    store.commit(downloaded(store, take_files(store)["x"]))
    assert (len(values(store)), len(waiting(store))) == (3, 5)
    parts = 0
    while True:
        with store.db.transaction():
            if not release_ended(store.db, store.run):
                break
        parts += 1
    assert parts == 2
    check(store)
    assert sorted(row["title"] for row in values(store)) == [str(i) for i in range(8)]
