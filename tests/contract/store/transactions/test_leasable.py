"""Whether one more node could lease a job now, by the rules of the lease."""

from collections.abc import Callable

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.store.tables.job import rings, sequences
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.lease import has_leasable_jobs
from tests.contract.store.harness import StoreHarness

SLOTS = 32


def leasable(store: StoreHarness) -> bool:
    return has_leasable_jobs(store.db, store.run, store.now, more_slots=SLOTS)


def pages(count: int, host: str = "a.test") -> list[str]:
    return [f"http://{host}/{number}" for number in range(count)]


def test_a_job_that_waits_is_leasable_rung_or_not(store: StoreHarness) -> None:
    assert not leasable(store)
    store.seed("http://a.test/1")
    assert leasable(store)
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
    assert leasable(store)
    store.lease(store.sequence("http://a.test/"))
    assert not leasable(store)


def test_a_host_at_its_concurrency_gives_none_although_spare_jobs_could_be_held(
    new_store: Callable[..., StoreHarness],
) -> None:
    store = new_store(slots=SLOTS, policies={"a.test:80": HostPolicy(delay=0.0, concurrency=4, robots=False)})
    store.seed(*pages(40))
    sequence = store.sequence("http://a.test/")
    assert len(store.lease(sequence, free=3).jobs) == 3
    assert leasable(store)
    assert len(store.lease(sequence, free=1).jobs) == 1
    assert not leasable(store)
    store.seed(*pages(2, "b.test"))
    assert leasable(store)


@pytest.mark.parametrize(("concurrency", "gives"), [(4, True), (1, False)])
def test_nodes_share_the_concurrency_of_a_host(
    new_store: Callable[..., StoreHarness], concurrency: int, gives: bool
) -> None:
    policy = HostPolicy(delay=0.0, concurrency=concurrency, robots=False)
    store = new_store(slots=SLOTS, policies={"a.test:80": policy})
    store.seed(*pages(40))
    assert store.lease(store.sequence("http://a.test/")).jobs
    assert not leasable(store)
    assert has_leasable_jobs(store.db, store.run, store.now, more_slots=SLOTS, shared=True) is gives


def test_a_host_with_a_delay_gives_one_job_at_its_time(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(policies={"a.test:80": HostPolicy(delay=1.0, concurrency=8, robots=False)})
    store.seed(*pages(9))
    store.lease(store.sequence("http://a.test/"))
    assert not leasable(store)
    store.now += 1.0
    assert leasable(store)


def test_the_slots_of_one_more_node_count_for_the_quota(new_store: Callable[..., StoreHarness]) -> None:
    """Two groups that share the slots of one node are at their quotas; with a second node they are not."""
    policy = HostPolicy(delay=0.0, concurrency=64, robots=False)
    store = new_store(slots=SLOTS, policies={"a.test:80": policy, "b.test:80": policy})
    for host in ("a.test", "b.test"):
        store.seed(*pages(40, host))
    for host in ("a.test", "b.test"):
        assert len(store.lease(store.sequence(f"http://{host}/"), free=SLOTS).jobs) in (15, 16)
    assert leasable(store)
    assert not has_leasable_jobs(store.db, store.run, store.now, more_slots=0)


def test_only_sequences_with_waiting_jobs_are_read(store: StoreHarness) -> None:
    store.seed("http://a.test/1")
    plans = store.plans(lambda: leasable(store))
    reads = [line for _, plan in plans for line in plan if " sequences " in line]
    assert {line.split("USING ")[1] for line in reads} == {
        "INDEX sequences_rung (run=? AND rung_at>?)",
        "INDEX sequences_waiting (run=?)",
        "INDEX sequences_extract (run=?)",
    }


@pytest.mark.parametrize("cause", ["run", "sequence", "host", "backoff"])
def test_what_is_paused_or_rests_gives_none(store: StoreHarness, cause: str) -> None:
    store.seed("http://a.test/1")
    host = store.place("http://a.test/").host
    with store.db.transaction():
        if cause == "run":
            runs.pause(store.db, store.run, "operator")
        elif cause == "sequence":
            sequences.pause(store.db, store.run, "g", True)
        elif cause == "host":
            store.db.execute("UPDATE hosts SET paused = 1 WHERE id = ?", (host,))
        else:
            store.db.execute("UPDATE hosts SET backoff_until = ? WHERE id = ?", (store.now + 9, host))
    assert not leasable(store)


def test_a_group_at_its_page_limit_gives_none(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(max_pages={"g": 2})
    store.seed(*pages(5))
    store.lease(store.sequence("http://a.test/"), free=2)
    assert not leasable(store)
