"""Requests are counted against page limits; bursts strike once; the pace of a throttled host follows its latency."""

from collections.abc import Callable

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import jobs, rings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import page_limits
from tests.contract.store.harness import StoreHarness, again, document, failed, sent

NewStore = Callable[..., StoreHarness]
AUTO = HostPolicy(delay=0.0, concurrency=8, robots=False, throttle=True)


def pages(host: str, count: int) -> list[str]:
    return [f"http://{host}/{n}" for n in range(count)]


def overloaded(job: LeasedJob, until: float, *, strike: bool) -> JobOutcome:
    return JobOutcome(
        job=job, state=JobState.READY, attempts=1, stats=sent(), not_before=until,
        effects=(Backoff(until, throttled=True, strike=strike),),
    )  # fmt: skip


def answered(store: StoreHarness, job: LeasedJob, seconds: float, *, ok: bool = True) -> JobOutcome:
    outcome = store.done(job) if ok else failed(job)
    outcome.stats.responses, outcome.stats.seconds = 1, seconds
    return outcome


def pace(store: StoreHarness) -> float:
    return float(store.db.value("SELECT pace FROM hosts WHERE id = 1"))


def test_retries_and_failures_count_and_the_rest_of_the_group_is_skipped(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 5})
    store.seed(*pages("a", 20))
    first = store.lease(1).jobs
    assert len(first) == 5
    assert all(job.terms.limits for job in first)
    assert store.lease(1).jobs == ()
    store.commit(*map(failed, first[:3]), again(first[3]), JobOutcome(job=first[4], state=JobState.READY))
    assert [room.requests for room in page_limits.list_rooms(store.db, store.run)] == [4], "one was given back unsent"
    (last,) = store.lease(1).jobs
    store.commit(again(last))
    assert store.lease(1).jobs == ()
    assert [room.requests for room in page_limits.list_rooms(store.db, store.run)] == [5]
    assert store.stored_counters()[1]["skipped"] == 17
    store.check_counters()


def test_a_stored_page_does_not_count(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 2})
    store.seed(*pages("a", 6))
    reused = [store.done(job) for job in store.lease(1).jobs]
    for outcome in reused:
        outcome.stats.requests = 0
    store.commit(*reused)
    assert len(store.lease(1).jobs) == 2


def test_what_a_dead_node_may_have_sent_stays_counted(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 3})
    store.seed(*pages("a", 6))
    assert len(store.lease(1, free=2).jobs) == 2
    with store.db.transaction():
        assert len(store.db.all("SELECT id FROM jobs WHERE state = 'TAKEN'")) == 2
        jobs.release(store.db, store.nodes[0], "killed", crashed=False)
    assert len(store.lease(1).jobs) == 1


def test_a_further_request_of_a_job_needs_room(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 2})
    store.seed(*pages("a", 3))
    (job,) = store.lease(1, free=1).jobs
    with store.db.transaction():
        assert page_limits.reserve_next(store.db, job)
        assert not page_limits.reserve_next(store.db, job)
        assert not page_limits.reserve_next(store.db, job._replace(lease=job.lease + 1)), "its lease is lost"
    assert store.lease(1).jobs == ()


def test_a_run_is_full_when_nothing_reserved_can_be_given_back(store: StoreHarness) -> None:
    store.seed(*pages("a", 6))
    store.limit("run", "", 2)
    one, two = store.lease(1).jobs
    assert page_limits.find_end(store.db, store.run) is None
    store.commit(store.done(one))
    assert page_limits.find_end(store.db, store.run) is None
    store.commit(failed(two))
    assert str(page_limits.find_end(store.db, store.run)) == "--max-pages 2"


def test_robots_txt_and_sitemaps_do_not_count(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 1}, policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=True)})
    store.seed(*pages("a", 2))
    robots = store.db.value("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = store.lease(int(robots)).jobs
    assert not job.terms.limits
    store.commit(store.done(job))
    assert [room.requests for room in page_limits.list_rooms(store.db, store.run)] == [0]


def test_a_burst_strikes_once(store: StoreHarness) -> None:
    store.seed(*pages("a", 8))
    taken = store.lease(1).jobs
    store.commit(*(overloaded(job, 1002.0, strike=number == 0) for number, job in enumerate(taken)))
    assert hosts.get_backoff(store.db, 1) == (1, 1002.0)
    assert store.db.value("SELECT throttled FROM hosts") == 8


def test_a_job_given_back_brings_the_backoff_that_another_data_dir_noted(store: StoreHarness) -> None:
    store.seed(*pages("a", 2))
    (job,) = store.lease(1, free=1).jobs
    store.commit(JobOutcome(job=job, state=JobState.READY, effects=(Backoff(1500.0),)))
    assert hosts.get_backoff(store.db, 1) == (0, 1500.0)
    assert store.lease(1).due == 1500.0


def test_answers_on_the_wire_do_not_end_the_strikes(store: StoreHarness) -> None:
    store.seed(*pages("a", 3))
    one, two, three = store.lease(1).jobs
    store.commit(overloaded(one, 1005.0, strike=True))
    store.commit(store.done(two, document("http://a/1"), page=1))
    assert hosts.get_backoff(store.db, 1)[0] == 1
    store.now = 1006.0
    store.commit(store.done(three, document("http://a/2"), page=2))
    assert hosts.get_backoff(store.db, 1)[0] == 0


def test_the_pace_follows_the_latency_and_errors_never_speed_it_up(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": AUTO})
    store.seed(*pages("a", 30))
    (job,) = store.lease(1).jobs
    assert (job.terms.throttled, job.terms.delay) == (True, 1.0), "slowly at first"
    store.commit(answered(store, job, 0.2))
    assert pace(store) == pytest.approx(0.6), "half way"
    store.now += 10
    (job,) = store.lease(1).jobs
    assert job.terms.delay == pytest.approx(0.6)
    store.commit(answered(store, job, 0.01, ok=False))
    assert pace(store) == pytest.approx(0.6)
    store.now += 10
    store.commit(answered(store, store.lease(1).jobs[0], 2.5, ok=False))
    assert pace(store) == pytest.approx(2.5), "a slow failure slows it"
    store.now += 10
    store.commit(answered(store, store.lease(1).jobs[0], 100.0))
    assert pace(store) == hosts.MAX_PACE


def test_429_lowers_the_rate_for_good(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": AUTO})
    store.seed(*pages("a", 30))
    store.commit(answered(store, store.lease(1).jobs[0], 0.2))
    store.now += 10
    store.commit(overloaded(store.lease(1).jobs[0], store.now + 1, strike=True))
    assert pace(store) == pytest.approx(1.2)
    for _ in range(8):
        store.now += 10
        store.commit(answered(store, store.lease(1).jobs[0], 0.01))
    assert pace(store) == pytest.approx(1.2)


def test_the_pace_is_never_below_the_delay_of_the_defs_and_does_not_apply_to_other_hosts(new_store: NewStore) -> None:
    slow = HostPolicy(delay=3.0, concurrency=8, robots=False, throttle=True)
    store = new_store(policies={"a:80": slow})
    store.seed(*pages("a", 3))
    store.seed(*pages("b", 3))
    assert store.lease(1).jobs[0].terms.delay == 3.0
    assert {job.terms.delay for job in store.lease(2).jobs} == {0.0}


def test_spare_jobs_are_those_for_which_slots_are_left(new_store: NewStore) -> None:
    store = new_store(slots=64)
    store.seed(*pages("a", 99))
    assert len(store.lease(1, free=99, batch=99).jobs) == 40
    assert [rings.spare_jobs(8, 64, active) for active in (0, 1, 3, 4, 8, 100)] == [32, 32, 13, 8, 0, 0]
