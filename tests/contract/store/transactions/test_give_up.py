"""Hosts that refuse for good: what counts, what does not, and who is given up."""

from collections.abc import Callable
from typing import Any

import pytest

from crawl_engine.model.host import GiveUpRule, HostPolicy, HostRule
from crawl_engine.model.job import HostPlan, JobState, LeasedJob
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.tables.host import host_control, hosts, refusals
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import rings, sequences
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions.retry import retry
from tests.contract.store.harness import StoreHarness, failed, sent

NewStore = Callable[..., StoreHarness]
PAGES = [f"http://a/{n}" for n in range(60)]
RULE = GiveUpRule(refusals=5, after=600.0)
PLAN = HostPlan(rule=HostRule(name="a", give_up=RULE))
POLICY = HostPolicy(delay=30.0, concurrency=8, robots=False)


@pytest.fixture
def store(new_store: NewStore) -> StoreHarness:
    store = new_store(nodes_=2, policies={"a:80": POLICY})
    store.seed(*PAGES)
    return store


def take(store: StoreHarness, url: str = "http://a/", node: int | None = None) -> LeasedJob:
    """The next job of a host, as soon as its limits allow one."""
    for _ in range(1_000):
        jobs = store.take(url, node=node, free=1)
        if jobs:
            return jobs[0]._replace(plan=PLAN)
        store.now += 1.0
    raise AssertionError(url)


def refused(job: LeasedJob, *, status: int = 403, backoff: Backoff | None = None) -> JobOutcome:
    effects: tuple[Any, ...] = () if backoff is None else (backoff,)
    stats = sent(responses=1, answers=((status, 0.1),), blocked=True)
    return JobOutcome(job=job, state=JobState.READY, reason="blocked", attempts=1, stats=stats, effects=effects)


def is_given_up(store: StoreHarness) -> bool:
    return bool(store.db.value("SELECT count(*) FROM refusals WHERE given_up <> 0"))


def refuse(store: StoreHarness, count: int, every: float, **more: Any) -> None:
    """Refuse so many requests, each so many seconds after the last one."""
    for number in range(count):
        job = take(store, node=store.nodes[number % len(store.nodes)])
        store.now += every
        store.commit(refused(job, **more))


def test_a_host_is_given_up_once_by_all_nodes_together(store: StoreHarness) -> None:
    refuse(store, 4, 300.0)
    assert not is_given_up(store), "four refusals"
    refuse(store, 1, 300.0)
    assert is_given_up(store)
    told = [event.text for event in store.list_events() if "given up" in event.text]
    assert len(told) == 1
    assert told[0].startswith("a:80: given up after 5 refusals in a row in ")
    job = take(store)
    assert job.terms.given_up
    assert job.terms.delay == 0.0, "it waits for no turn"
    store.commit(refused(job, backoff=Backoff(store.now + 900.0)))
    assert take(store).terms.given_up, "a late refusal rests nobody"
    assert len([event for event in store.list_events() if "given up" in event.text]) == 1


def test_many_refusals_in_a_short_time_are_not_enough(store: StoreHarness) -> None:
    refuse(store, 12, 1.0)
    assert not is_given_up(store)


def test_waits_that_the_host_asked_for_do_not_count(store: StoreHarness) -> None:
    for _ in range(12):
        job = take(store)
        until = store.now + 500.0
        store.commit(refused(job, status=429, backoff=Backoff(until, asked_until=until)))
        store.now = until
    assert not is_given_up(store)


def test_the_hours_of_a_host_do_not_count(store: StoreHarness) -> None:
    refuse(store, 8, 20.0)
    for _ in range(3):
        job, until = take(store), store.now + 4_000.0
        effects = (Backoff(until, asked_until=until),)
        store.commit(JobOutcome(job=job, state=JobState.READY, effects=effects))
        store.now = until
        refuse(store, 1, 1.0)
    assert not is_given_up(store)


def test_a_rest_that_nobody_asked_for_starts_no_clock(store: StoreHarness) -> None:
    """Jobs that a resting host gives back say until when; after a pause that is no time of refusals."""
    refuse(store, 8, 1.0)
    with store.db.transaction():
        refusals.stop_clocks(store.db, store.run)
    store.now += 50_000.0
    job = take(store)
    store.commit(JobOutcome(job=job, state=JobState.READY, effects=(Backoff(store.now + 1.0),)))
    store.now += 1.0
    refuse(store, 1, 1.0)
    assert not is_given_up(store)


def test_a_long_gap_counts_little(store: StoreHarness) -> None:
    refuse(store, 8, 0.0)
    store.now += 100_000.0
    refuse(store, 1, 0.0)
    assert not is_given_up(store), "nobody asked in between"


def test_an_overloaded_host_is_not_given_up(store: StoreHarness) -> None:
    refuse(store, 12, 300.0, status=503)
    assert not is_given_up(store)
    refuse(store, 3, 300.0)
    refuse(store, 1, 300.0, status=503)
    refuse(store, 2, 300.0)
    assert is_given_up(store), "and it ends no row"


@pytest.mark.parametrize("pause", ["run", "disk", "sequence"])
def test_pauses_do_not_count(store: StoreHarness, pause: str) -> None:
    refuse(store, 8, 20.0)
    for _ in range(3):
        with store.db.transaction():
            if pause == "run":
                runs.pause(store.db, store.run, "operator")
            elif pause == "disk":
                runs.hold_for_disk(store.db, store.run, True)
            else:
                sequences.pause(store.db, store.run, "g", True)
        store.now += 4_000.0
        with store.db.transaction():
            if pause == "run":
                runs.pause(store.db, store.run, None)
            elif pause == "disk":
                runs.hold_for_disk(store.db, store.run, False)
            else:
                sequences.pause(store.db, store.run, "g", False)
        refuse(store, 1, 1.0)
    assert not is_given_up(store)


@pytest.mark.parametrize(
    ("status", "ends"), [(200, True), (304, True), (404, True), (500, False), (503, False), (0, False)]
)  # fmt: skip
def test_an_answer_that_is_no_refusal_ends_the_row(store: StoreHarness, status: int, ends: bool) -> None:
    refuse(store, 4, 300.0)
    job = take(store)
    done = store.done(job) if status in (200, 304) else failed(job)
    done.stats = sent(responses=int(status > 0), answers=((status, 0.1),))
    store.commit(done)
    refuse(store, 1, 300.0)
    assert is_given_up(store) is not ends


def test_hosts_with_one_limit_are_given_up_together(new_store: NewStore) -> None:
    shared = HostPolicy(delay=0.0, concurrency=4, robots=False, pool="*.shop")
    store = new_store(policies={f"n{number}.shop:80": shared for number in range(4)})
    store.seed(*[f"http://n{number}.shop/{page}" for number in range(4) for page in range(9)], "http://other/")
    for number in range(5):
        job = take(store, f"http://n{number % 4}.shop/")
        store.now += 300.0
        store.commit(refused(job))
    assert is_given_up(store)
    with store.db.transaction():
        rings.ring_all(store.db, store.run, store.now)
    given = {(job.url.split("/")[2], job.terms.given_up) for got in store.lease_rung() for job in got.jobs}
    assert ("other", False) in given
    assert len(given) > 2
    assert {is_given for name, is_given in given if name != "other"} == {True}
    told = [event.text for event in store.list_events() if "given up" in event.text]
    assert [text.partition(":")[0] for text in told] == ["*.shop"]


def test_retry_and_an_operator_ask_again(store: StoreHarness) -> None:
    refuse(store, 6, 300.0)
    assert is_given_up(store)
    job = take(store)
    store.commit(failed(job, "blocked: the host refuses"))
    assert retry(store.db, store.run, JobFilter()) == 1
    assert not is_given_up(store)
    assert not take(store).terms.given_up

    refuse(store, 6, 300.0)
    assert is_given_up(store)
    with store.db.transaction():
        assert host_control.end_rest(store.db, store.run, "a:80", store.now)
    assert not is_given_up(store)


def test_never_means_never(store: StoreHarness) -> None:
    never = HostPlan(rule=HostRule(name="a", give_up=None))
    for _ in range(30):
        job = take(store)._replace(plan=never)
        store.now += 900.0
        store.commit(refused(job))
    assert not is_given_up(store)
    assert refusals.find_limiter(store.db, hosts.find(store.db, store.run, "a:80") or 0).name == "a:80"
