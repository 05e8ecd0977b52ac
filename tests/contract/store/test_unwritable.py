"""A result that cannot be stored fails alone; all others of its group are kept."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.store.house import House, Page, again, child, unwritable

Houses = Callable[..., House]


# A part that cannot be written.


@pytest.mark.parametrize("how", ["row", "event", "reason", "number", "level", "document", "link"])
def test_one_result_that_cannot_be_stored_fails_alone(house: House, how: str) -> None:
    house.seed(*[f"http://a/{i}" for i in range(4)])
    one, bad, two, back = house.take("http://a/")
    group = [
        house.done(one, data=['"one"'], links=[Page("http://b/1"), Page("http://c/1")]),
        unwritable(house, bad, how),
        house.done(two, data=['"two"'], links=[Page("http://b/2")]),
        again(back, 1009.0),
    ]
    told = house.commit(*group)
    assert told.accepted_ids == {one.id, bad.id, two.id, back.id}
    states = dict(house.jobs("id, state"))
    assert [states[j.id] for j in (one, bad, two, back)] == ["DONE", "FAILED", "DONE", "READY"]
    reason = house.db.value("SELECT reason FROM jobs WHERE id = ?", (bad.id,))
    assert reason.startswith("its result cannot be stored: ")
    assert house.rows() == [(one.id, '"one"'), (two.id, '"two"')]
    assert {u for u, _ in house.jobs()} == {f"http://a/{i}" for i in range(4)} | {
        "http://b/1", "http://b/2", "http://c/1",
    }  # fmt: skip
    (event,) = house.told()
    assert (event.level, event.job, event.text) == ("ERROR", bad.id, reason)
    assert house.db.value("SELECT errors FROM hosts") == 1, "the retried one's, and no other"
    house.check_counters()


def test_what_an_unwritable_result_would_have_made_is_not_remembered_as_there(house: House) -> None:
    """The host it named was rolled back: the next job that names it must make it."""
    house.seed("http://a/1", "http://a/2")
    bad, good = house.take("http://a/")
    house.commit(replace(unwritable(house, bad, "event"), children=(child(Page("http://b/1")),)))
    assert house.db.all("SELECT key FROM hosts") == [("a:80",)]
    house.commit(house.done(good, links=[Page("http://b/2")]))
    assert [j.url for j in house.take("http://b/")] == ["http://b/2"]
    house.check_counters()


def test_an_unwritable_result_of_a_lost_lease_fails_nobodys_job(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    old, other = house.take("http://a/")
    house.commit(again(old))
    (new,) = house.take("http://a/")
    assert house.commit(unwritable(house, old, "reason"), house.done(other)).accepted_ids == {other.id}
    assert house.state(new.id) == "TAKEN"


def test_several_unwritable_results_fail_and_all_others_are_kept(house: House) -> None:
    house.seed(*[f"http://a/{i}" for i in range(6)])
    taken = house.take("http://a/")
    hows = ["row", "number", "link"]
    group = [unwritable(house, j, hows[i // 2]) if i % 2 else house.done(j) for i, j in enumerate(taken)]
    house.commit(*group)
    assert [s for _, s in house.jobs()] == ["DONE", "FAILED"] * 3
    house.check_counters()
