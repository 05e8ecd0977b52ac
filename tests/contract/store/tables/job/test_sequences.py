"""Only triggers change the counters, and they always equal a count of the jobs."""

from itertools import product

import pytest

from crawl_engine.model.job import JobState
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness, traced

STANDINGS: list[tuple[JobState, float | None]] = [*((state, None) for state in JobState), (JobState.READY, 1005.0)]


def _put(store: StoreHarness, standing: tuple[JobState, float | None], sequence: int) -> None:
    """Directly, in one statement, as a commit would."""
    state, not_before = standing
    lease = 5 if state is JobState.TAKEN else None
    with store.db.transaction():
        store.db.execute(
            "UPDATE jobs SET state = ?, not_before = ?, sequence = ?, lease = ? WHERE id = 1",
            (state, not_before, sequence, lease),
        )


@pytest.mark.parametrize("goes_to", [1, 2], ids=["stays", "moves"])
def test_every_change_of_a_job_is_counted(store: StoreHarness, goes_to: int) -> None:
    store.seed("http://a/1", "http://a/2")
    store.seed("http://b/1")
    for before, after in product(STANDINGS, STANDINGS):
        _put(store, before, sequence=1)
        store.check_counters()
        _put(store, after, sequence=goes_to)
        store.check_counters()


@pytest.mark.parametrize("standing", STANDINGS)
def test_a_deleted_job_is_no_longer_counted(store: StoreHarness, standing: tuple[JobState, float | None]) -> None:
    store.seed("http://a/1", "http://a/2")
    _put(store, standing, sequence=1)
    with store.db.transaction():
        store.db.execute("DELETE FROM jobs WHERE id = 1")
    store.check_counters()


@pytest.mark.parametrize(("state", "not_before"), [("READY", None), ("READY", 5.0), ("SKIPPED", None)])
def test_a_new_job_is_counted(store: StoreHarness, state: str, not_before: float | None) -> None:
    store.sequence("http://a/1")
    with store.db.transaction():
        store.db.execute(
            "INSERT INTO jobs (run, sequence, origin, url, identity, state, not_before)"
            " VALUES (?, 1, 'link', 'u', x'01', ?, ?)",
            (store.run, state, not_before),
        )
    store.check_counters()


def test_wrong_counters_are_rebuilt(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    store.seed("http://b/1")
    store.take("http://a/", free=2)
    right, active = store.stored_counters(), store.db.value("SELECT active_sequences FROM runs")
    assert active == 2
    with store.db.transaction():
        store.db.execute("UPDATE sequences SET ready = 9, taken = 7, done = 5, delayed = 1 WHERE id = 1")
        store.db.execute("UPDATE sequences SET ready = 0, skipped = 4, failed = 4, incomplete = 4 WHERE id = 2")
        store.db.execute("UPDATE runs SET active_sequences = 77")
        sequences.recount(store.db, store.run)
        runs.recount(store.db, store.run)
    assert store.stored_counters() == right
    store.check_counters()


def test_taken_counters_are_rebuilt_from_the_taken_jobs(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    store.seed("http://b/1")
    store.take("http://a/", free=2)
    right = store.stored_counters()
    with store.db.transaction():
        store.db.execute("UPDATE sequences SET taken = 7")
        sequences.recount_taken(store.db, store.run)
    assert store.stored_counters() == right


def test_a_recount_leaves_other_runs_unchanged(store: StoreHarness) -> None:
    store.seed("http://a/1")
    with store.db.transaction():
        store.db.execute("UPDATE sequences SET taken = 7, done = 3")
        sequences.recount(store.db, store.run + 1)
        sequences.recount_taken(store.db, store.run + 1)
    assert (store.stored_counters()[1]["taken"], store.stored_counters()[1]["done"]) == (7, 3)


def test_a_placement_is_read_once(store: StoreHarness) -> None:
    place = store.place("http://a/1")
    assert store.plans(lambda: store.place("http://a/2")) == []
    assert store.place("http://a/2") == place
    assert store.place("http://a/2", "h").host == place.host
    assert store.place("http://a/2", "h").sequence != place.sequence
    assert store.new_places().find_or_create(store.db, "g", "a:80", "http://a") == place, (
        "another process finds the same"
    )


@pytest.mark.sqlite
def test_a_placement_that_another_process_created_is_found_by_one_statement(store: StoreHarness) -> None:
    store.seed("http://a/1")
    place, other = store.place("http://a/"), store.new_places()
    with traced(store.db) as seen:
        assert other.find_or_create(store.db, "g", "a:80", "http://a") == place
    assert len(seen) == 1
