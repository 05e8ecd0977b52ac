"""A result that cannot be stored fails alone; all others of its group are kept."""

from collections.abc import Callable

import pytest

from crawl_engine.store.tables.job.linked_jobs import Children
from tests.contract.store.harness import Page, StoreHarness, again, child, unwritable

NewStore = Callable[..., StoreHarness]


# A part that cannot be written.


@pytest.mark.parametrize("how", ["row", "event", "reason", "number", "level", "document", "link"])
def test_one_result_that_cannot_be_stored_fails_alone(store: StoreHarness, how: str) -> None:
    store.seed(*[f"http://a/{i}" for i in range(4)])
    one, bad, two, back = store.take("http://a/")
    group = [
        store.done(one, data=['"one"'], links=[Page("http://b/1"), Page("http://c/1")]),
        unwritable(store, bad, how),
        store.done(two, data=['"two"'], links=[Page("http://b/2")]),
        again(back, 1009.0),
    ]
    result = store.commit(*group)
    assert result.accepted_ids == {one.id, bad.id, two.id, back.id}
    states = dict(store.jobs("id, state"))
    assert [states[j.id] for j in (one, bad, two, back)] == ["DONE", "FAILED", "DONE", "READY"]
    reason = store.db.value("SELECT reason FROM jobs WHERE id = ?", (bad.id,))
    assert reason.startswith("its result cannot be stored: ")
    assert store.rows() == [(one.id, '"one"'), (two.id, '"two"')]
    assert {u for u, _ in store.jobs()} == {f"http://a/{i}" for i in range(4)} | {
        "http://b/1", "http://b/2", "http://c/1",
    }  # fmt: skip
    (event,) = store.list_events()
    assert (event.level, event.job, event.text) == ("ERROR", bad.id, reason)
    assert store.db.value("SELECT errors FROM hosts") == 1, "the retried one's, and no other"
    store.check_counters()


def test_placements_of_an_unwritable_result_are_not_cached(store: StoreHarness) -> None:
    """The host it named was rolled back: the next job for it must create it."""
    store.seed("http://a/1", "http://a/2")
    bad, good = store.take("http://a/")
    store.commit(unwritable(store, bad, "event").add(Children((child(Page("http://b/1")),))))
    assert store.db.all("SELECT key FROM hosts") == [("a:80",)]
    store.commit(store.done(good, links=[Page("http://b/2")]))
    assert [j.url for j in store.take("http://b/")] == ["http://b/2"]
    store.check_counters()


def test_an_unwritable_result_with_a_lost_lease_fails_no_job(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    old, other = store.take("http://a/")
    store.commit(again(old))
    (new,) = store.take("http://a/")
    assert store.commit(unwritable(store, old, "reason"), store.done(other)).accepted_ids == {other.id}
    assert store.state(new.id) == "TAKEN"


def test_several_unwritable_results_fail_and_all_others_are_kept(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{i}" for i in range(6)])
    taken = store.take("http://a/")
    hows = ["row", "number", "link"]
    group = [unwritable(store, j, hows[i // 2]) if i % 2 else store.done(j) for i, j in enumerate(taken)]
    store.commit(*group)
    assert [s for _, s in store.jobs()] == ["DONE", "FAILED"] * 3
    store.check_counters()
