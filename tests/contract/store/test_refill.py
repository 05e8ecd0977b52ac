"""The commit that frees places fills them, as long as nobody else waits for a turn."""

from collections.abc import Callable

import pytest

from engine.model.job import JobState
from engine.store.read import candidates
from engine.store.tables import jobs
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.house import House, Page

Houses = Callable[..., House]
WIDE = HostPolicy(delay=0.0, concurrency=100, robots=False)


def pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{first + i}" for i in range(count)]


def test_freed_places_are_filled_in_the_transaction_that_frees_them(house: House) -> None:
    house.seed(*pages("a", 10))
    first = house.lease(1, free=4).jobs
    seen: list[str] = []
    house.db._connection.set_trace_callback(seen.append)
    told = house.commit(*map(house.done, first[:3]), free=3, held=1)
    house.db._connection.set_trace_callback(None)
    assert [job.url for job in told.leased] == pages("a", 3, first=4)
    assert told.leased[0].lease != first[0].lease
    assert [s for s in seen if s.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert house.db.one("SELECT taken, done FROM sequences WHERE id = 1") == (4, 3)


def test_without_a_wish_nothing_is_leased_but_rung(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=2, robots=False)})
    house.seed(*pages("a", 6))
    told = house.commit(house.done(house.lease(1, free=2).jobs[0]))
    assert (told.leased, told.ring) == ((), (1,))


def test_a_sequence_that_waits_for_its_turn_comes_first(houses: Houses) -> None:
    house = houses(manners={"a:80": WIDE, "b:80": WIDE})
    house.seed(*pages("a", 6))
    house.seed(*pages("b", 6))
    taken = house.lease(1, free=3).jobs
    told = house.commit(*map(house.done, taken[:2]), free=2, held=1)
    assert [job.url for job in told.leased] == pages("b", 2)
    assert told.ring == ()
    assert house.rung() == {1, 2}, "both are on their way"


def test_of_many_that_wait_the_queue_keeps_the_order(houses: Houses) -> None:
    house = houses(manners={f"{name}:80": WIDE for name in "abcdef"})
    for name in "abcdef":
        house.seed(*pages(name, 6))
    told = house.commit(house.done(house.lease(1, free=1).jobs[0]), free=1)
    assert told.leased == ()


def test_a_ring_on_its_way_is_left_to_whom_it_reaches(house: House) -> None:
    house.seed(*pages("a", 10))
    taken = house.lease(1, free=2).jobs
    assert house.rung() == {1}, "more could be leased"
    told = house.commit(*map(house.done, taken), free=2)
    assert len(told.leased) == 2
    assert told.ring == ()
    assert house.rung() == {1}


def test_children_of_the_commit_are_leased_by_it(house: House) -> None:
    house.seed("http://a/0")
    (root,) = house.lease(1).jobs
    told = house.commit(house.done(root, links=[Page(url, depth=1) for url in pages("a", 5, first=1)]), free=3)
    assert len(told.leased) == 3
    assert told.ring == (1,), "two are left, for whoever has room"


def test_the_limits_of_a_lease_hold(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=3, robots=False)})
    house.seed(*pages("a", 10))
    first = house.lease(1, free=3).jobs
    told = house.commit(house.done(first[0]), free=5)
    assert len(told.leased) == 1, "the host has room for one"
    assert told.ring == ()
    slow = houses(manners={"a:80": HostPolicy(delay=0.4, concurrency=9, robots=False)})
    slow.seed(*pages("a", 10))
    booked = slow.lease(1, free=9).jobs
    assert len(booked) == 2
    told = slow.commit(*map(slow.done, booked), free=2)
    assert (told.leased, told.ring) == ((), ()), "its clock is not due"


def test_of_a_host_a_node_takes_its_fair_share_and_leaves_the_rest_to_others(houses: Houses) -> None:
    house = houses(slots=64, nodes_=2, manners={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    house.seed(*pages("a", 40))
    first = house.lease(1, free=32).jobs
    assert len(first) == 8
    told = house.commit(*map(house.done, first[:6]), free=30, held=2, slots=32, jobs_by_host={1: 2})
    assert len(told.leased) == 2
    assert told.ring == (1,)
    assert told.left_for_others
    assert len(house.lease(1, node=house.nodes[1]).jobs) == 4
    told = house.commit(*map(house.done, first[6:]), free=30, held=2, slots=32, jobs_by_host={1: 2})
    assert len(told.leased) == 2
    assert told.ring == ()


def test_who_has_more_than_its_share_leaves_what_it_frees_to_others(houses: Houses) -> None:
    house = houses(slots=128, nodes_=4, manners={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    house.seed(*pages("a", 40))
    first = house.lease(1, free=32).jobs
    told = house.commit(*map(house.done, first[:6]), free=38, held=2, slots=32, jobs_by_host={1: 2})
    assert (told.leased, told.ring, told.left_for_others) == ((), (1,), True)


def test_a_host_with_a_delay_is_left_to_its_ring(houses: Houses) -> None:
    """Its send times would be counted from before the commit reached the disk."""
    house = houses(manners={"a:80": HostPolicy(delay=0.1, concurrency=8, robots=False)})
    house.seed(*pages("a", 40))
    first = house.lease(1, free=4).jobs
    house.now += 1.0
    told = house.commit(*map(house.done, first), free=4, slots=32)
    assert (told.leased, told.ring, told.left_for_others) == ((), (1,), False)


def test_of_several_groups_on_a_host_the_one_with_the_fewest_under_way_is_served_first(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=4, robots=False)})
    house.seed(*pages("a", 20))
    house.seed(*pages("a", 20, first=50), group="other")
    held = house.lease(1, free=4).jobs
    house.lease(2, node=house.nodes[0], free=4)
    told = house.commit(house.done(held[0]), free=1, held=3)
    assert [job.group for job in told.leased] == ["other"]
    assert told.ring == (1,)


def test_a_fault_of_the_lease_is_no_fault_of_the_results(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.seed(*pages("a", 6))
    taken = house.lease(1, free=2).jobs

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such request")

    monkeypatch.setattr(candidates, "to_leased_job", broken)
    told = house.commit(*map(house.done, taken), free=2)
    assert len(told.accepted_ids) == 2
    assert told.leased == ()
    assert house.db.one("SELECT taken, done, ready FROM sequences WHERE id = 1") == (0, 2, 4)
    assert house.rung() == {1}


def test_a_node_alone_has_the_whole_host(houses: Houses) -> None:
    house = houses(slots=32, manners={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    house.seed(*pages("a", 40))
    first = house.lease(1, free=32).jobs
    told = house.commit(*map(house.done, first[:6]), free=30, held=2, slots=32, jobs_by_host={1: 2})
    assert len(told.leased) == 6


def test_a_suspect_is_left_to_a_node_that_holds_nothing(house: House) -> None:
    house.seed(*pages("a", 3))
    mine = house.lease(1, free=2).jobs
    with house.db.transaction():
        jobs.release(house.db, house.nodes[0], "it died", crashed=True)
    assert len(mine) == 2
    other = house.lease(1, free=1, held=1).jobs
    assert [job.url for job in other] == ["http://a/2"]
    house.seed(*pages("a", 5, first=10))
    told = house.commit(house.done(other[0]), free=5, held=1)
    assert (told.leased, told.left_for_others) == ((), True), "who is always fed would never be empty"
    (job,) = house.lease(1, free=5).jobs
    told = house.commit(house.done(job), free=5)
    assert len(told.leased) == 1, "held nothing: one suspect, and nothing beside it"
    assert told.leased[0].crashes == 1


def test_what_cannot_be_stored_does_not_keep_the_places_empty(house: House) -> None:
    house.seed(*pages("a", 6))
    one, two = house.lease(1, free=2).jobs
    broken = JobOutcome(job=one, state=JobState.DONE, attempts=1, children=(None,))  # type: ignore[arg-type]
    told = house.commit(broken, house.done(two), free=2)
    assert len(told.accepted_ids) == 2
    assert len(told.leased) == 2
    assert house.db.value("SELECT state FROM jobs WHERE id = ?", (one.id,)) == "FAILED"
