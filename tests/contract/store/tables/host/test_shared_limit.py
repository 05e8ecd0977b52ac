"""Hosts of a pattern with `shared` have one limit: their jobs are leased as if they were one host's."""

import random
from collections.abc import Callable
from itertools import count

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import LeasedJob
from crawl_engine.store.read.data_warnings import find_warnings
from crawl_engine.store.tables.host import host_control, hosts
from crawl_engine.store.tables.host.hosts import Backoff, HostAddress
from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions import placement, waits
from crawl_engine.store.transactions.waits import WaitingPlace
from tests.contract.store.harness import StoreHarness, again, document

NewStore = Callable[..., StoreHarness]
POOL = "*.shop"


def policy(**more: object) -> HostPolicy:
    return HostPolicy(**{"delay": 0.0, "concurrency": 2, "robots": False, "pool": POOL, **more})  # type: ignore[arg-type]


def new_pool(new_store: NewStore, names: int = 8, **more: object) -> StoreHarness:
    """A page of each name, and one of a host that is none of them."""
    policies = {f"n{number}.shop:80": policy(**more) for number in range(names)}
    store = new_store(policies=policies)
    store.seed(*(f"http://n{number}.shop/" for number in range(names)), "http://other/")
    return store


def take(store: StoreHarness) -> list[LeasedJob]:
    with store.db.transaction():
        rings.ring_all(store.db, store.run, store.now)
    return [job for got in store.lease_rung() for job in got.jobs]


def of_pool(jobs: list[LeasedJob]) -> list[LeasedJob]:
    return [job for job in jobs if ".shop" in job.url]


def test_all_names_have_the_concurrency_of_one(new_store: NewStore) -> None:
    store = new_pool(new_store, concurrency=2)
    jobs = take(store)
    # as of one host: its concurrency, and spare ones while slots are left over
    assert len(of_pool(jobs)) == 2 + rings.spare_jobs(2, 64, 9)
    assert [job.url for job in jobs if ".shop" not in job.url] == ["http://other/"]
    assert of_pool(take(store)) == []
    store.commit(store.done(of_pool(jobs)[0]))
    assert len(of_pool(take(store))) == 1, "one ended: any other name may follow"


def test_a_commit_rings_another_name(new_store: NewStore) -> None:
    store = new_pool(new_store, names=40, concurrency=1)
    jobs = take(store)
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
    ended = of_pool(jobs)[0]
    ring = store.commit(*map(store.done, of_pool(jobs))).ring
    waiting = store.db.column("SELECT id FROM sequences WHERE ready > 0")
    assert ring
    assert set(ring) <= set(waiting) - {ended.sequence}


def test_one_delay_lies_between_the_requests_to_all_names(new_store: NewStore) -> None:
    store = new_pool(new_store, names=5, delay=2.0)
    first = of_pool(take(store))
    assert len(first) == 1
    assert of_pool(take(store)) == []
    store.now += 1.0
    assert of_pool(take(store)) == []
    store.now += 1.0
    assert len(of_pool(take(store))) == 1


def test_a_turn_that_was_not_used_is_given_to_any_name(new_store: NewStore) -> None:
    store = new_pool(new_store, names=5, delay=2.0)
    (job,) = of_pool(take(store))
    with store.db.transaction():
        hosts.return_turn(store.db, job.host, 2.0, store.now)
    assert len(of_pool(take(store))) == 1


@pytest.mark.parametrize("struck", ["n0.shop:80", "n4.shop:80"])
def test_a_refusal_rests_all_names(new_store: NewStore, struck: str) -> None:
    store = new_pool(new_store, names=5)
    host = hosts.find(store.db, store.run, struck)
    assert host is not None
    jobs = of_pool(take(store))
    with store.db.transaction():
        hosts.set_backoff(store.db, host, Backoff(store.now + 30, throttled=True, strike=True))
    store.commit(*map(again, jobs))
    assert of_pool(take(store)) == []
    assert hosts.get_backoff(store.db, host) == (1, store.now + 30)
    other = hosts.find(store.db, store.run, "n2.shop:80")
    assert other is not None
    assert hosts.get_backoff(store.db, other) == (1, store.now + 30), "the next strike doubles the rest"
    why = waits.explain(store.db, store.run, [WaitingPlace("page", "g", "n2.shop:80")], store.now, lambda *_: None)
    assert why == {WaitingPlace("page", "g", "n2.shop:80"): "*.shop rests for 30.0 s after 429 or 503"}
    store.now += 31
    (job,) = of_pool(take(store))[:1]
    store.commit(store.done(job, document(job.url)))
    assert hosts.get_backoff(store.db, other)[0] == 0, "an answer of any name ends the strikes"


def test_an_operator_ends_the_rest_of_all_names(new_store: NewStore) -> None:
    store = new_pool(new_store, names=3)
    host = hosts.find(store.db, store.run, "n0.shop:80")
    assert host is not None
    with store.db.transaction():
        hosts.set_backoff(store.db, host, Backoff(store.now + 30))
        assert host_control.end_rest(store.db, store.run, "n2.shop:80", store.now)
    assert of_pool(take(store))
    assert host_control.read_limited(store.db, store.run, "n2.shop:80") == POOL
    assert host_control.read_limited(store.db, store.run, "other:80") == "other:80"


def test_new_defs_join_hosts(new_store: NewStore) -> None:
    store = new_pool(new_store, names=4, concurrency=1, pool=None)
    jobs = of_pool(take(store))
    assert len(jobs) == 4, "each for itself"
    for number in range(4):
        with store.db.transaction():
            placement.apply_host_policy(store.db, store.run, f"n{number}.shop:80", policy(concurrency=1, delay=5.0))
    assert of_pool(take(store)) == []
    store.commit(*map(again, jobs))
    assert len(of_pool(take(store))) == 1


def test_a_commit_rings_few_of_ten_thousand_names(new_store: NewStore) -> None:
    store = new_pool(new_store, names=10_000, concurrency=4)
    jobs = of_pool(take(store))
    for _ in range(20):
        ring = store.commit(store.done(jobs.pop())).ring
        assert 0 < len(ring) <= 16
        jobs += of_pool(store_rung(store))
        assert jobs
    assert len(jobs) <= 4 + rings.spare_jobs(4, 64, 10_001)


def store_rung(store: StoreHarness) -> list[LeasedJob]:
    return [job for got in store.lease_rung() for job in got.jobs]


def test_every_job_of_all_names_ends(new_store: NewStore) -> None:
    random.seed(3)
    store = new_pool(new_store, names=120, concurrency=3)
    with store.db.transaction():
        rings.ring_all(store.db, store.run, store.now)
    ended: set[str] = set()
    for _ in count():
        jobs = store_rung(store)
        if not jobs:
            break
        assert len(of_pool(jobs)) <= 3 + rings.spare_jobs(3, 64, 121 - len(ended))
        ended |= {job.url for job in jobs}
        store.commit(*map(store.done, jobs))
    assert len(ended) == 121
    store.check_counters()


def test_many_names_of_one_address_are_told(new_store: NewStore) -> None:
    store = new_store()
    store.seed(*(f"http://n{number}.shop/" for number in range(6)), "http://n0.shop:81/", "http://far/")
    places = {job.url: job for job in store_rung(store)}
    for url, job in places.items():
        outcome = store.done(job)
        outcome.add(HostAddress("203.0.113.9" if "far" in url else "203.0.113.7"))
        store.commit(outcome)
    found = [one for one in find_warnings(store.db, runs.get(store.db, store.run), {}) if one.code == "one-address"]
    (warning,) = found
    assert warning.text == (
        "6 hosts are at 203.0.113.7, such as n0.shop, each with its own limits; a pattern in `hosts` gives them one: "
        '{"*.shop": {shared: true}}'
    )
    for number in range(6):
        with store.db.transaction():
            placement.apply_host_policy(store.db, store.run, f"n{number}.shop:80", policy())
    assert not [one for one in find_warnings(store.db, runs.get(store.db, store.run), {}) if one.code == "one-address"]
