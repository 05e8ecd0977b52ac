"""The lease respects limits, delays, backoff and robots.txt of hosts; rings come when work is due."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState, LeasedJob
from crawl_engine.runtime.clock import boottime
from crawl_engine.store.tables.host import host_control, hosts
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import jobs, rings
from crawl_engine.store.tables.outcome import AttemptStats, JobOutcome
from crawl_engine.store.transactions.lease import Lease
from crawl_engine.store.transactions.robots import RobotsResult
from tests.contract.store.harness import Page, StoreHarness, again, sent

NewStore = Callable[..., StoreHarness]
WIDE = HostPolicy(delay=0.0, concurrency=10_000, robots=False)


def _pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{i}" for i in range(first, first + count)]


def _urls(got: Lease) -> list[str]:
    return [job.url for job in got.jobs]


# Hosts.


def test_host_concurrency_holds_across_groups_and_nodes(new_store: NewStore) -> None:
    store = new_store(nodes_=2, slots=8, policies={"a:80": HostPolicy(delay=0.0, concurrency=5, robots=False)})
    store.seed(*_pages("a", 20))
    store.seed(*_pages("a", 20, first=50), group="other")
    one, two = store.sequence("http://a/0"), store.sequence("http://a/0", "other")
    first = store.lease(one, free=3)
    assert len(first.jobs) == 3
    assert first.ring, "two more may be leased"
    second = store.lease(two, node=store.nodes[1])
    assert len(second.jobs) == 2
    assert not second.ring, "the host is at its limit: the commit will ring"
    assert store.lease(one).jobs == ()
    store.commit(store.done(first.jobs[0]))
    assert len(store.lease(two).jobs) == 1


def test_a_host_at_its_limit_is_rung_when_a_slot_is_freed_and_not_before(new_store: NewStore) -> None:
    store = new_store(slots=2, policies={"a:80": HostPolicy(delay=0.0, concurrency=2, robots=False)})
    assert store.seed(*_pages("a", 5)) == [1]
    taken = store.lease(1).jobs
    assert store.rung() == set()
    with store.db.transaction():
        assert rings.ring_hosts(store.db, [1], store.now) == []
    assert store.commit(store.done(taken[0])).ring == (1,)
    assert store.commit(store.done(taken[1])).ring == (), "it is rung already"


@pytest.mark.parametrize(("delay", "booked"), [(0.1, 10), (0.3, 3), (0.5, 2), (0.7, 1), (1.0, 1), (3.0, 1), (30, 1)])
def test_a_delay_reserves_a_second_of_send_times_and_at_least_one(
    new_store: NewStore, delay: float, booked: int
) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=delay, concurrency=100, robots=False)})
    store.seed(*_pages("a", 30))
    sent: list[float] = []
    for _ in range(3):
        got = store.lease(1)
        assert len(got.jobs) == booked
        sent += [job.terms.send_at or 0.0 for job in got.jobs]
        assert not got.ring
        assert got.due == pytest.approx(sent[-1] + delay - rings.LOOKAHEAD)
        assert store.lease(1).jobs == () or delay <= rings.LOOKAHEAD
        store.now = got.due or 0.0
    gaps = [b - a for a, b in pairwise(sent)]
    assert gaps == pytest.approx([delay] * len(gaps)), "no time is lost between two leases"


@pytest.mark.parametrize(
    ("policy", "operator", "least", "most"),
    [
        (HostPolicy(delay=0.1, delay_max=0.3, concurrency=100, robots=False), None, 0.1, 0.3),
        (HostPolicy(delay=0.4, delay_max=0.3, concurrency=100, robots=False), None, 0.4, 0.4),
        (HostPolicy(delay=0.1, delay_max=0.3, concurrency=100, robots=False), 0.2, 0.2, 0.2),
    ],
    ids=["drawn", "raised minimum", "operator"],
)
def test_each_delay_is_drawn_in_the_lease(
    new_store: NewStore, policy: HostPolicy, operator: float | None, least: float, most: float
) -> None:
    store = new_store(policies={"a:80": policy})
    store.seed(*_pages("a", 60))
    if operator is not None:
        with store.db.transaction():
            host_control.set_limits(store.db, store.run, "a:80", store.now, delay=operator)
    taken: list[LeasedJob] = []
    while len(taken) < 30:
        got = store.lease(1)
        taken += got.jobs
        store.now = got.due or 0.0
    gaps = [(after.terms.send_at or 0.0) - (before.terms.send_at or 0.0) for before, after in pairwise(taken)]
    assert gaps == pytest.approx([job.terms.delay for job in taken[:-1]]), "the gate keeps the same delay"
    assert min(gaps) >= least - 1e-6
    assert max(gaps) <= most + 1e-6
    assert (max(gaps) - min(gaps) > 0.05) == (most > least)


def test_send_times_reserved_by_one_group_bind_other_groups_of_the_host(new_store: NewStore) -> None:
    store = new_store(nodes_=2, policies={"a:80": HostPolicy(delay=0.5, concurrency=100, robots=False)})
    store.seed(*_pages("a", 9))
    store.seed(*_pages("a", 9, first=50), group="other")
    assert [j.terms.send_at for j in store.lease(1).jobs] == [1000.0, 1000.5]
    blocked = store.lease(2, node=store.nodes[1])
    assert (blocked.jobs, blocked.ring) == ((), False)
    assert blocked.due == pytest.approx(1000.9)
    store.now = 1000.95
    assert [j.terms.send_at for j in store.lease(2).jobs] == [1001.0, 1001.5]


def test_a_late_lease_sends_from_now_on(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=1.0, concurrency=9, robots=False)})
    store.seed(*_pages("a", 5))
    store.lease(1)
    store.now += 60
    assert [j.terms.send_at for j in store.lease(1).jobs] == [1060.0]


def test_the_last_ready_page_of_a_delayed_host_still_returns_the_next_send_time(new_store: NewStore) -> None:
    """Child jobs may come before the next send time, so a timer must ring then."""
    store = new_store(policies={"a:80": HostPolicy(delay=0.3, concurrency=9, robots=False)})
    store.seed("http://a/1")
    got = store.lease(1)
    assert store.commit(store.done(got.jobs[0], links=[Page("http://a/2")])).ring == ()
    assert got.due == pytest.approx(1000.3 - rings.LOOKAHEAD)
    store.now = got.due or 0.0
    with store.db.transaction():
        assert rings.ring_all(store.db, store.run, store.now) == [1]


def overloaded(job: LeasedJob, until: float, *, strike: bool = True) -> JobOutcome:
    """The host answered 429."""
    return JobOutcome(
        job=job, state=JobState.READY, attempts=1, stats=sent(), not_before=until,
        effects=(Backoff(until, throttled=True, strike=strike),),
    )  # fmt: skip


def test_backoff_blocks_the_whole_host_until_it_ends(store: StoreHarness) -> None:
    store.seed(*_pages("a", 5))
    store.seed(*_pages("a", 5, first=50), group="other")
    (job,) = store.take("http://a/", free=1)
    result = store.commit(overloaded(job, 1030.0))
    assert result.due == (1030.0,)
    assert result.ring == ()
    for sequence in (1, 2):
        assert store.lease(sequence) == Lease(due=1030.0)
    with store.db.transaction():
        assert rings.ring_all(store.db, store.run, 1029.99) == []
    assert hosts.get_backoff(store.db, 1) == (1, 1030.0)
    store.now = 1030.0
    assert len(store.lease(2).jobs) == 5


def test_a_shorter_backoff_does_not_shorten_a_longer_one_and_a_successful_page_resets_strikes(
    store: StoreHarness,
) -> None:
    store.seed(*_pages("a", 3))
    one, two, three = store.take("http://a/")
    for job, until in ((one, 1090.0), (two, 1010.0)):
        store.commit(overloaded(job, until))
    assert hosts.get_backoff(store.db, 1) == (2, 1090.0)
    store.commit(store.done(three))
    assert hosts.get_backoff(store.db, 1)[0] == 2, "no document: nothing was fetched"


@pytest.fixture
def gated(new_store: NewStore) -> StoreHarness:
    """A host whose robots.txt is required, with one page."""
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=True)})
    store.seed("http://a/1")
    return store


def test_the_robots_txt_of_a_new_host_is_fetched_first(gated: StoreHarness) -> None:
    kinds = dict(gated.db.all("SELECT kind, id FROM sequences"))
    assert gated.rung() == {kinds["robots"]}
    assert gated.lease(kinds["page"]).jobs == ()
    with gated.db.transaction():
        assert rings.ring_all(gated.db, gated.run, gated.now) == []
    (robots,) = gated.lease(kinds["robots"]).jobs
    assert (robots.url, robots.kind) == ("http://a:80/robots.txt".replace(":80", ""), JobKind.ROBOTS)
    result = gated.commit(
        JobOutcome(job=robots, state=JobState.DONE, effects=(RobotsResult(200, "User-agent: *", 2.0, fetched_at=1.0),))
    )
    assert result.ring == (kinds["page"],)
    assert [j.terms.delay for j in gated.lease(kinds["page"]).jobs] == [2.0]
    assert hosts.get_robots(gated.db, 1) == (200, "User-agent: *", 1.0)


def test_robots_gate_sitemaps_as_well(gated: StoreHarness) -> None:
    place = gated.place("http://a/sitemap.xml", kind=JobKind.SITEMAP)
    with gated.db.transaction():
        gated.db.execute("UPDATE jobs SET sequence = ? WHERE url = 'http://a/1'", (place.sequence,))
    assert gated.lease(place.sequence).jobs == ()


def test_robots_txt_can_increase_a_delay_but_not_reduce_it(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=5.0, concurrency=8, robots=True)})
    store.seed("http://a/1")
    robots = store.db.value("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = store.lease(robots).jobs
    store.commit(JobOutcome(job=job, state=JobState.DONE, effects=(RobotsResult(200, "", 2.0, fetched_at=1.0),)))
    assert store.db.value("SELECT delay FROM hosts") == 5.0


# Rings.


def test_a_lease_rings_again_only_if_work_is_left(store: StoreHarness) -> None:
    store.seed(*_pages("a", 5))
    assert store.rung() == {1}
    assert store.lease(1, free=3).ring
    assert store.rung() == {1}
    assert not store.lease(1).ring
    assert store.rung() == set()


def test_a_lease_that_got_nothing_does_not_ring(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.lease(1)
    assert store.lease(1) == Lease()


def test_seeds_and_children_ring_a_sequence_once(store: StoreHarness) -> None:
    assert store.seed("http://a/1") == [1]
    assert store.seed("http://a/2") == [], "it is rung already"
    one, two = store.take("http://a/")
    assert store.commit(store.done(one, links=[Page("http://a/3"), Page("http://b/1")])).ring == (1, 2)
    assert store.commit(store.done(two, links=[Page("http://b/2")])).ring == ()


def test_a_retry_rings_when_it_is_due_and_not_before(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    result = store.commit(again(job, 1005.0))
    assert (result.ring, result.due) == ((), (1005.0,))
    assert jobs.next_due(store.db, store.run) == 1005.0
    assert store.stored_counters()[1]["delayed"] == 1
    for now, promoted, rung in ((1004.9, 0, []), (1005.0, 1, [1])):
        with store.db.transaction():
            assert jobs.promote(store.db, store.run, now) == promoted
            assert rings.ring_all(store.db, store.run, now) == rung
    assert jobs.next_due(store.db, store.run) is None
    (job,) = store.take("http://a/")
    assert job.attempts == 1
    store.check_counters()


def test_a_sequence_that_waits_is_known_by_the_age_of_its_ring(store: StoreHarness) -> None:
    store.seed("http://a/1")
    assert not rings.has_waited(store.db, store.run, 1000.0)
    assert rings.has_waited(store.db, store.run, 1004.0)
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
    assert not rings.has_waited(store.db, store.run, 1004.0)
    assert store.rung() == set()


def test_rings_and_leases_agree_on_a_host_whose_send_time_is_near(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=10.0, concurrency=9, robots=False)})
    store.seed(*_pages("a", 3))
    store.lease(1)
    for before, agreed in ((0.2, False), (0.05, True)):
        store.now = 1010.0 - before
        with store.db.transaction():
            assert bool(rings.ring_hosts(store.db, [1], store.now)) is agreed
        assert bool(store.lease(1).jobs) is agreed


@pytest.mark.parametrize(
    ("state", "more", "sent_at"),
    [
        (JobState.SKIPPED, {}, 1000.5),
        (JobState.DONE, {}, 1000.5),
        (JobState.DONE, {"requests": 1}, 1010.0),
        (JobState.DONE, {"answers": ((200, 0.1),)}, 1010.0),  # its request was counted by the lease
        (JobState.READY, {}, 1010.0),
    ],
    ids=["disallowed", "stored", "sent", "sent within a limit", "leased again"],
)
def test_a_turn_in_which_nothing_was_sent_is_returned(
    new_store: NewStore, state: JobState, more: dict[str, Any], sent_at: float
) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=10.0, concurrency=9, robots=False)})
    store.seed(*_pages("a", 3))
    [first] = store.lease(1).jobs
    store.now = 1000.5
    store.commit(JobOutcome(job=first, state=state, stats=AttemptStats(**more)))
    store.now = max(store.now, sent_at)
    [second] = store.lease(1).jobs
    assert (first.terms.send_at, second.terms.send_at) == (1000.0, sent_at)


# Deadlines after a reboot.


def test_after_a_reboot_the_rest_of_each_wait_is_kept(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(again(one, 1008.0), JobOutcome(job=two, state=JobState.DONE, effects=(Backoff(1004.0),)))
    with store.db.transaction():
        hosts.reserve(store.db, {1: 1002.0})
        jobs.shift_deadlines(store.db, -990.0)
        hosts.shift_deadlines(store.db, -990.0)
    assert jobs.next_due(store.db, store.run) == pytest.approx(18.0)
    assert store.db.all("SELECT next_at, backoff_until FROM hosts") == [(12.0, 14.0)]


def test_the_clock_of_deadlines_only_runs_forward() -> None:
    samples = [boottime() for _ in range(100)]
    assert samples == sorted(samples)
