"""Each warning is logged once, whatever digits its names have, and not lost with a transaction."""

import pytest
from msgspec.structs import replace

from crawl_engine.model.definition import DataDef, Field, Task, TaskGroup
from crawl_engine.model.record import PageWarning, RecordCounts
from crawl_engine.store.read.data_warnings import DataWarning, find_warnings, store_found
from crawl_engine.store.tables.outcome import Effect
from crawl_engine.store.tables.row import health
from crawl_engine.store.tables.row.health import NewWarnings, PageCounts
from crawl_engine.store.tables.run import events, runs, versions
from crawl_engine.supervise.analysis.run_stats import WarningLog
from tests.contract.store.harness import DEFS, StoreHarness


def logged(store: StoreHarness) -> list[str]:
    return sorted(events.list_texts(store.db, store.run, "data", 0, 99))


def warnings(store: StoreHarness) -> list[DataWarning]:
    return find_warnings(store.db, runs.get(store.db, store.run), health.read(store.db, store.run))


def count_pages(
    store: StoreHarness,
    *more: Effect,
    missing: tuple[tuple[str, int], ...] = (),
    records: int = 30,
    filtered: int = 0,
    rejected: int = 0,
    data_def: DataDef = DEFS.data_defs[0],
) -> None:
    group = TaskGroup(name="g", tasks=(Task(name="t", data_def="book"),))
    defs = replace(DEFS, task_groups=(group,), data_defs=(data_def,))
    with store.db.transaction():
        runs.set_version(store.db, store.run, versions.publish(store.db, defs, 1.0))
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    book = int(store.db.value("SELECT max(id) FROM data_defs"))
    store.commit(store.done(job, PageCounts(book, RecordCounts(records, rejected, missing, filtered)), *more))


def test_fields_that_differ_by_a_digit_have_their_own_warnings(store: StoreHarness) -> None:
    count_pages(store, missing=(("price1", 30), ("price2", 30), ("title", 0)))
    log = WarningLog(store.context())
    for _ in range(3):
        with store.db.transaction():
            log.update(warnings(store))
        log.confirm()
    assert logged(store) == [f"book.price{n} was never filled in 30 records" for n in (1, 2)]


def test_a_warning_whose_transaction_failed_is_logged_by_the_next(store: StoreHarness) -> None:
    count_pages(store, missing=(("price", 30),))
    log = WarningLog(store.context())
    with pytest.raises(RuntimeError), store.db.transaction():
        log.update(warnings(store))
        raise RuntimeError
    assert logged(store) == []
    with store.db.transaction():
        log.update(warnings(store))
    log.confirm()
    assert logged(store) == ["book.price was never filled in 30 records"]


def test_doubts_about_values_are_warnings_once_a_field_and_code(store: StoreHarness) -> None:
    def doubt(field: str, code: str, text: str) -> NewWarnings:
        return NewWarnings(((store.book, PageWarning("book", field, code, text)),))

    first, later = doubt("price", "digits-left", "one"), doubt("price", "digits-left", "two")
    count_pages(store, first, doubt("price", "guessed-group", "three"), doubt("", "spanned-row", "four"))
    store.seed("http://a/2")
    (job,) = store.take("http://a/2")
    store.commit(store.done(job, later))
    found = warnings(store)
    assert found == [
        DataWarning("spanned-row", "four", "book"),
        DataWarning("digits-left", "one", "book", subject="price"),
        DataWarning("guessed-group", "three", "book", subject="price"),
    ]
    with store.db.transaction():
        WarningLog(store.context()).update(warnings(store))
    assert logged(store) == ["four", "one", "three"]


@pytest.mark.parametrize(
    ("block", "filtered", "text"),
    [
        ("article.pod", 0, "book: block `article.pod` matched no element on 1 page"),
        ("xpath: //tr[td]", 0, "book: block `xpath: //tr[td]` matched no element on 1 page"),
        ("jmespath: items", 0, "book: block `jmespath: items` matched no value on 1 page"),
        ("article.pod", 3, "book: its filters dropped every record (3) of 1 page"),
        (None, 1, "book: its filters dropped every record (1) of 1 page"),
        (None, 0, "book gave no row on 1 page"),
    ],
)
def test_a_finished_run_says_why_a_data_def_gave_no_row(
    store: StoreHarness, block: str | None, filtered: int, text: str
) -> None:
    data_def = DataDef(name="book", block=block, fields=(Field(name="title"),))
    count_pages(store, records=0, filtered=filtered, data_def=data_def)

    assert warnings(store) == [], "a run that is not DONE may find rows yet"
    store.db.execute("UPDATE runs SET state = 'DONE' WHERE seq = ?", (store.run,))
    assert warnings(store) == [DataWarning("no-rows", text, "book")]


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ((("a", 3), ("b", 3), ("c", 3)), "every record of book was rejected (3): b was never filled by `.b`"),
        ((("a", 3), ("b", 2), ("c", 3)), "every record of book was rejected (3): c was never filled"),
        ((("a", 3), ("b", 0), ("c", 0)), "every record of book was rejected (3)"),
        ((("a", 0), ("d", 3)), "every record of book was rejected (3): d was never filled by `.d` or `xpath: ./i`"),
    ],
)
def test_a_data_def_whose_records_were_all_rejected_names_the_field(
    store: StoreHarness, missing: tuple[tuple[str, int], ...], text: str
) -> None:
    fields = (
        Field(name="a", selector=".a"),
        Field(name="b", selector=".b", required=True),
        Field(name="c", required=True),
        Field(name="d", selector=".d", fallbacks=("xpath: ./i",), required=True),
    )
    count_pages(store, missing=missing, records=3, rejected=3, data_def=DataDef(name="book", fields=fields))
    found = warnings(store)
    assert [one for one in found if one.data_def] == [DataWarning("all-rejected", text, "book")]


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ({"http://a/1": "robots.txt disallows it", "http://a/2": "robots.txt disallows it", "http://a/3": "HTTP 500"},
         "no page was fetched: http://a/1 and 1 more: robots.txt disallows it; http://a/3: HTTP 500"),
        ({"http://a/1": "excluded by an operator: kind:page", "http://a/2": "stopped by an operator"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_run_without_a_page_says_why(store: StoreHarness, ends: dict[str, str], text: str | None) -> None:
    if ends:
        store.seed(*ends)
    for url, reason in ends.items():
        store.db.execute("UPDATE jobs SET state = 'SKIPPED', reason = ? WHERE url = ?", (reason, url))
    assert not [one for one in warnings(store) if one.code == "nothing-fetched"], "the run may fetch pages yet"
    store.db.execute("UPDATE runs SET state = 'DONE' WHERE seq = ?", (store.run,))
    store_found(store.db, runs.get(store.db, store.run))
    assert [one.text for one in warnings(store) if one.code == "nothing-fetched"] == ([text] if text else [])
