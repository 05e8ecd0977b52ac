"""Counters are kept by triggers alone: whatever happens to a job, they equal what counting would give."""

from itertools import product

import pytest

from engine.model.job import JobState
from engine.store.tables import runs, sequences
from tests.contract.store.house import House

STANDINGS: list[tuple[JobState, float | None]] = [*((state, None) for state in JobState), (JobState.READY, 1005.0)]


def _put(house: House, standing: tuple[JobState, float | None], sequence: int) -> None:
    """By force, in one statement, as a verdict would."""
    state, not_before = standing
    lease = 5 if state is JobState.TAKEN else None
    with house.db.transaction():
        house.db.execute(
            "UPDATE jobs SET state = ?, not_before = ?, sequence = ?, lease = ? WHERE id = 1",
            (state, not_before, sequence, lease),
        )


@pytest.mark.parametrize("goes_to", [1, 2], ids=["stays", "moves"])
def test_every_change_of_a_job_is_counted(house: House, goes_to: int) -> None:
    house.seed("http://a/1", "http://a/2")
    house.seed("http://b/1")
    for before, after in product(STANDINGS, STANDINGS):
        _put(house, before, sequence=1)
        house.check_counters()
        _put(house, after, sequence=goes_to)
        house.check_counters()


@pytest.mark.parametrize("standing", STANDINGS)
def test_a_deleted_job_is_counted_no_more(house: House, standing: tuple[JobState, float | None]) -> None:
    house.seed("http://a/1", "http://a/2")
    _put(house, standing, sequence=1)
    with house.db.transaction():
        house.db.execute("DELETE FROM jobs WHERE id = 1")
    house.check_counters()


@pytest.mark.parametrize(("state", "not_before"), [("READY", None), ("READY", 5.0), ("SKIPPED", None)])
def test_a_job_is_counted_as_it_is_born(house: House, state: str, not_before: float | None) -> None:
    house.sequence("http://a/1")
    with house.db.transaction():
        house.db.execute(
            "INSERT INTO jobs (run, sequence, origin, url, identity, state, not_before)"
            " VALUES (?, 1, 'link', 'u', x'01', ?, ?)",
            (house.run, state, not_before),
        )
    house.check_counters()


def test_counters_that_went_wrong_are_rebuilt(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    house.seed("http://b/1")
    house.take("http://a/", free=2)
    right, active = house.counted(), house.db.value("SELECT active_sequences FROM runs")
    assert active == 2
    with house.db.transaction():
        house.db.execute("UPDATE sequences SET ready = 9, taken = 7, done = 5, delayed = 1 WHERE id = 1")
        house.db.execute("UPDATE sequences SET ready = 0, skipped = 4, failed = 4, incomplete = 4 WHERE id = 2")
        house.db.execute("UPDATE runs SET active_sequences = 77")
        sequences.recount(house.db, house.run)
        runs.recount(house.db, house.run)
    assert house.counted() == right
    house.check_counters()


def test_taken_counters_are_rebuilt_from_the_jobs_that_are(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    house.seed("http://b/1")
    house.take("http://a/", free=2)
    right = house.counted()
    with house.db.transaction():
        house.db.execute("UPDATE sequences SET taken = 7")
        sequences.recount_taken(house.db, house.run)
    assert house.counted() == right


def test_a_recount_leaves_other_runs_alone(house: House) -> None:
    house.seed("http://a/1")
    with house.db.transaction():
        house.db.execute("UPDATE sequences SET taken = 7, done = 3")
        sequences.recount(house.db, house.run + 1)
        sequences.recount_taken(house.db, house.run + 1)
    assert (house.counted()[1]["taken"], house.counted()[1]["done"]) == (7, 3)


def test_a_place_is_looked_for_once(house: House) -> None:
    place = house.place("http://a/1")
    assert house.plans(lambda: house.place("http://a/2")) == []
    assert house.place("http://a/2") == place
    assert house.place("http://a/2", "h").host == place.host
    assert house.place("http://a/2", "h").sequence != place.sequence
    assert house.new_places().find_or_create(house.db, "g", "a:80", "http://a") == place, (
        "another process finds the same"
    )
