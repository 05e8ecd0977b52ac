"""A unique key counts once a run: by commits, retries, re-extractions, takeovers and files in any order."""

import random
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_console.filter_syntax import parse
from crawl_engine.model.job import JobKind, LeasedJob
from crawl_engine.model.node import Role
from crawl_engine.store.read import snapshot
from crawl_engine.store.tables.job import extracts
from crawl_engine.store.tables.outcome import Effect, JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.transactions import statistics
from crawl_engine.store.transactions.retry import retry
from crawl_engine.store.transactions.supersede import OldRows
from tests.contract.store.filed import downloaded, held_row, named, page, take_files
from tests.contract.store.harness import StoreHarness, again, unwritable

PAGES = 5


def row(key: str | None, number: int) -> str:
    return orjson.dumps({"title": key, "number": number}).decode()


def unique(store: StoreHarness, *texts: str, key: tuple[str, ...] = ("title",)) -> NewRows:
    return NewRows("book", store.book, texts, unique=key)


def texts(store: StoreHarness) -> list[Any]:
    return [orjson.loads(data) for _, data in store.rows()]


def check(store: StoreHarness) -> None:
    """No key counts twice, no double stands without its row, and all counts and sums are exact."""
    assert store.stored_counters() == store.count_jobs()
    store.check_sums()
    keys = [bytes(key) for (key,) in store.db.all("SELECT key FROM rows WHERE key IS NOT NULL")]
    assert len(set(keys)) == len(keys)
    assert {bytes(key) for (key,) in store.db.all("SELECT key FROM double_rows")} <= set(keys)
    counts = store.db.one("SELECT total(rows), total(duplicates), total(waiting) FROM row_counts")
    assert counts == tuple(
        store.db.value(f"SELECT count(*) FROM {table}") for table in ("rows", "double_rows", "held_rows")
    )


def lease_extractions(store: StoreHarness) -> tuple[LeasedJob, ...]:
    return store.lease(store.place("http://a/", kind=JobKind.EXTRACT).sequence).jobs


def test_the_first_row_of_a_key_counts_and_the_oldest_double_follows_it(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    first, second, third = store.take("http://a/")
    store.commit(store.done(first, unique(store, row("x", 1), row("y", 1), row("x", 11))))
    store.commit(store.done(second, unique(store, row("x", 2))), store.done(third, unique(store, row("x", 3))))
    check(store)
    assert [(r["title"], r["number"]) for r in texts(store)] == [("x", 1), ("y", 1)]
    assert snapshot.read(store.db).duplicates == {"book": 3}
    retry(store.db, store.run, parse("state:done http://a/1$"))
    check(store)
    assert [(r["title"], r["number"]) for r in texts(store)] == [("x", 2)]
    assert snapshot.read(store.db).duplicates == {"book": 1}


def test_a_page_that_is_extracted_again_keeps_its_keys(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    first, second = store.take("http://a/")
    store.commit(store.done(first, unique(store, row("x", 1), row("y", 1))))
    store.commit(store.done(second, unique(store, row("x", 2), row("y", 2))))
    with store.db.transaction():
        extracts.queue(store.db, [first.id])
    [extract] = lease_extractions(store)
    store.commit(store.done(extract, unique(store, row("x", 10)), OldRows()))
    check(store)
    assert [(r["title"], r["number"]) for r in texts(store)] == [("x", 10), ("y", 2)]


def test_rows_without_any_part_of_the_key_are_no_doubles(store: StoreHarness) -> None:
    store.seed("http://a/1")
    [job] = store.take("http://a/")
    store.commit(store.done(job, unique(store, row(None, 1), row(None, 1), key=("title",))))
    check(store)
    assert len(texts(store)) == 2


def test_a_key_may_be_long_and_counts_once_in_each_data_def_and_run(store: StoreHarness) -> None:
    store.seed("http://a/1")
    [job] = store.take("http://a/")
    long = "ß" * 3_000
    other = NewRows("author", store.book, (row(long, 3),), unique=("title",))
    store.commit(store.done(job, unique(store, row(long, 1), row(long, 2)), other))
    assert [r["number"] for r in texts(store)] == [1, 3]


def test_an_outcome_that_cannot_be_written_costs_no_double(store: StoreHarness) -> None:
    """The others are written again one by one: what was set aside with it counts now."""
    store.seed("http://a/1", "http://a/2")
    first, second = store.take("http://a/")
    broken = unwritable(store, first, "event")
    broken.effects = (unique(store, row("x", 1)), *broken.effects)
    store.commit(broken, store.done(second, unique(store, row("x", 2))))
    check(store)
    assert [r["number"] for r in texts(store)] == [2]


def test_a_large_row_may_be_a_double(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    first, second = store.take("http://a/")
    large = memoryview(row("x" * 100_000, 2).encode())
    store.commit(store.done(first, unique(store, row("x" * 100_000, 1))))
    store.commit(store.done(second, NewRows("book", store.book, (large,), unique=("title",))))
    retry(store.db, store.run, parse("state:done http://a/1$"))
    check(store)
    assert store.db.value("SELECT CAST(data AS TEXT) FROM rows") == bytes(large).decode()


def test_a_recount_counts_doubles(store: StoreHarness) -> None:
    store.seed("http://a/1")
    [job] = store.take("http://a/")
    store.commit(store.done(job, unique(store, row("x", 1), row("x", 2))))
    with store.db.transaction():
        store.db.execute("UPDATE row_counts SET duplicates = 9")
        statistics.recount(store.db, store.run)
    check(store)


@pytest.mark.sqlite
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=True))
def test_any_order_leaves_one_row_of_each_key(new_store: Any, rng: random.Random) -> None:
    store: StoreHarness = new_store()
    store.seed(*(f"http://a/{number}" for number in range(PAGES)))
    current: dict[int, list[str | None]] = {}

    def outcome_of(job: LeasedJob) -> JobOutcome:
        if rng.randrange(6) == 0:
            return again(job)
        if job.kind is JobKind.FILE:
            return downloaded(store, job)
        drawn = rng.choices(["a", "b", "c", None], k=rng.randrange(4))
        current[job.page_id] = drawn
        replaced: tuple[Effect, ...] = (OldRows(),) if job.kind is JobKind.EXTRACT else ()
        rows = [orjson.dumps({"title": title, "file": None, "more": []}).decode() for title in drawn[1:]]
        held = [held_row(title, "http://f/x") for title in drawn[:1] if title is not None]
        if not held:
            rows += [orjson.dumps({"title": title, "file": None, "more": []}).decode() for title in drawn[:1]]
        made = page(store, job, *held, effects=[unique(store, *rows), *replaced] if rows else replaced)
        for effect in made.effects:
            if hasattr(effect, "unique"):
                effect.unique = ("title",)
        assert named(*held) in ([], ["http://f/x"])
        return made

    for _ in range(12):
        taken = [*store.take("http://a/"), *lease_extractions(store), *take_files(store).values()]
        outcomes = [outcome_of(job) for job in rng.sample(taken, len(taken))]
        for outcome in outcomes if rng.random() < 0.5 else ():
            store.commit(outcome)
            check(store)
        store.commit(*outcomes)  # a second time it changes nothing
        check(store)
        match rng.randrange(4):
            case 0:
                retry(store.db, store.run, parse(f"state:done kind:page http://a/{rng.randrange(5)}$"))
            case 1:
                store.nodes[0] = store.node(Role.RUNNER)
            case 2:
                done = [
                    int(id_) for (id_,) in store.db.all("SELECT id FROM jobs WHERE state = 'DONE' AND page IS NULL")
                ]
                pages = [id_ for id_ in done if id_ in current]
                with store.db.transaction():
                    extracts.queue(store.db, pages[: rng.randrange(PAGES + 1)])
        check(store)
    while taken := [*store.take("http://a/"), *lease_extractions(store), *take_files(store).values()]:
        store.commit(*map(outcome_of, taken))
        check(store)
    done = {int(id_) for (id_,) in store.db.all("SELECT id FROM jobs WHERE state = 'DONE'")}
    wanted = Counter(title for page_id, drawn in current.items() if page_id in done for title in drawn)
    written = Counter(one["title"] for one in texts(store))
    assert written == {title: count if title is None else 1 for title, count in wanted.items()}
    doubles = sum(count - 1 for title, count in wanted.items() if title is not None)
    assert sum(snapshot.read(store.db).duplicates.values()) == doubles
    store.close()
