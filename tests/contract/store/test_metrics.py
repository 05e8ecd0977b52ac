"""What fetching cost: counted by the commit that accepted the result, once, under the group of its job."""

import pytest

from engine.model.job import JobState
from engine.store.read import snapshot
from engine.store.tables import metrics, runs
from engine.store.tables.metrics import FetchStats, GroupTotals, build_metrics
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.house import House, again, failed, unwritable


def spent(finished: JobOutcome, received: int = 100, seconds: float = 0.5) -> JobOutcome:
    finished.fetches, finished.fetch_seconds, finished.received_bytes = 1, seconds, received
    return finished


def test_a_commit_adds_up_by_group(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    house.seed("http://a/4", group="other")
    one, two, three = house.take("http://a/1")
    (other,) = house.take("http://a/4", "other")
    house.commit(spent(house.done(one)), spent(failed(two), 7), spent(again(three), 3), spent(house.done(other), 50))
    assert metrics.list_fetch_stats(house.db, house.run) == [
        FetchStats("g", 3, 1.5, 110, 1),
        FetchStats("other", 1, 0.5, 50, 0),
    ]
    (three,) = house.take("http://a/3")
    house.commit(spent(house.done(three)))
    assert metrics.list_fetch_stats(house.db, house.run)[0] == FetchStats("g", 4, 2.0, 210, 1)


def test_a_result_that_lost_its_lease_counts_for_nothing(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/1")
    house.commit(spent(house.done(one._replace(lease=one.lease + 1))), spent(house.done(two)))
    house.commit(spent(house.done(two)))
    assert metrics.list_fetch_stats(house.db, house.run) == [FetchStats("g", 1, 0.5, 100, 0)]


def test_what_took_no_fetch_writes_nothing(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/1")
    house.commit(house.done(one), JobOutcome(job=two, state=JobState.READY))
    assert metrics.list_fetch_stats(house.db, house.run) == [], "a page from the store, a job given back"


@pytest.mark.parametrize("how", ["row", "link"])
def test_a_result_that_cannot_be_stored_was_fetched_all_the_same(house: House, how: str) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/1")
    house.commit(spent(unwritable(house, one, how)), spent(house.done(two)))
    assert house.state(one.id) == "FAILED"
    assert metrics.list_fetch_stats(house.db, house.run) == [FetchStats("g", 2, 1.0, 200, 0)]


def test_a_commit_group_costs_one_statement(house: House) -> None:
    house.seed(*[f"http://a/{n}" for n in range(16)])
    taken = house.take("http://a/0")
    plans = house.plans(lambda: house.commit(*[spent(house.done(job)) for job in taken]))
    assert len([s for s, _ in plans if "INTO metrics" in s]) == 1


def test_the_snapshot_tells_the_figures(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, _ = house.take("http://a/1")
    house.commit(spent(house.done(one)), spent(failed(two)))
    with house.db.transaction():
        runs.count_takeover(house.db, house.run)
        runs.add_time(house.db, house.run, 30.0, {})
    told = snapshot.read(house.db).metrics
    assert {key: told[key] for key in ("success", "seconds", "pages_per_min", "fetches", "fetch_ms", "bytes")} == {
        "success": 50.0, "seconds": 30.0, "pages_per_min": 2.0, "fetches": 2, "fetch_ms": 500.0, "bytes": 200,
    }  # fmt: skip
    assert told["takeovers"] == 1
    assert told["groups"] == [
        {
            "group": "g", "done": 1, "failed": 1, "skipped": 0, "incomplete": 0, "left": 1, "fetches": 2,
            "fetch_ms": 500.0, "bytes": 200, "retries": 0,
        }
    ]  # fmt: skip


def test_figures_of_nothing_are_nothing() -> None:
    told = build_metrics([], [], {}, 0.0, 0)
    assert told["success"] is told["fetch_ms"] is None
    assert told["groups"] == told["shares"] == []


def test_shares_are_of_what_all_nodes_worked() -> None:
    told = build_metrics([GroupTotals("g", 4, 0, 0, 0, 0)], [], {"n1": 3, "n2": 1, "n3": 0}, 1.0, 0)
    assert [s["share"] for s in told["shares"]] == [75.0, 25.0, 0.0]
