"""The lease is polite: hosts have their limits, delays, backoff and robots; and rings come when work is due."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from engine.model.job import JobKind, JobState
from engine.runtime.clock import boottime
from engine.store.tables import hosts, jobs, sequences
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.lease import Lease
from engine.store.transactions.outcome import JobOutcome, RobotsResult
from tests.contract.store.house import House, Page, again

Houses = Callable[..., House]
WIDE = HostPolicy(delay=0.0, concurrency=10_000, robots=False)


def _pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{i}" for i in range(first, first + count)]


def _urls(got: Lease) -> list[str]:
    return [job.url for job in got.jobs]


# Hosts.


def test_host_concurrency_holds_across_groups_and_nodes(houses: Houses) -> None:
    house = houses(nodes_=2, manners={"a:80": HostPolicy(delay=0.0, concurrency=5, robots=False)})
    house.seed(*_pages("a", 20))
    house.seed(*_pages("a", 20, first=50), group="other")
    one, two = house.sequence("http://a/0"), house.sequence("http://a/0", "other")
    first = house.lease(one, free=3)
    assert len(first.jobs) == 3
    assert first.ring, "two more may be leased"
    second = house.lease(two, node=house.nodes[1])
    assert len(second.jobs) == 2
    assert not second.ring, "the host has no room: the commit will ring"
    assert house.lease(one).jobs == ()
    house.commit(house.done(first.jobs[0]))
    assert len(house.lease(two).jobs) == 1


def test_a_host_at_its_limit_is_rung_when_a_slot_is_freed_and_not_before(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=2, robots=False)})
    assert house.seed(*_pages("a", 5)) == [1]
    taken = house.lease(1).jobs
    assert house.rung() == set()
    with house.db.transaction():
        assert sequences.ring_hosts(house.db, [1], house.now) == []
    assert house.commit(house.done(taken[0])).ring == (1,)
    assert house.commit(house.done(taken[1])).ring == (), "its bell is rung already"


@pytest.mark.parametrize(("delay", "booked"), [(0.1, 10), (0.3, 3), (0.5, 2), (0.7, 1), (1.0, 1), (3.0, 1), (30, 1)])
def test_a_delay_books_a_second_of_send_times_and_one_at_least(houses: Houses, delay: float, booked: int) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=delay, concurrency=100, robots=False)})
    house.seed(*_pages("a", 30))
    sent: list[float] = []
    for _ in range(3):
        got = house.lease(1)
        assert len(got.jobs) == booked
        sent += [job.send_at or 0.0 for job in got.jobs]
        assert not got.ring
        assert got.due == pytest.approx(sent[-1] + delay - sequences.LOOKAHEAD)
        assert house.lease(1).jobs == () or delay <= sequences.LOOKAHEAD
        house.now = got.due or 0.0
    gaps = [b - a for a, b in pairwise(sent)]
    assert gaps == pytest.approx([delay] * len(gaps)), "no time is lost between two leases"


def test_times_booked_by_one_group_bind_the_others_of_the_host(houses: Houses) -> None:
    house = houses(nodes_=2, manners={"a:80": HostPolicy(delay=0.5, concurrency=100, robots=False)})
    house.seed(*_pages("a", 9))
    house.seed(*_pages("a", 9, first=50), group="other")
    assert [j.send_at for j in house.lease(1).jobs] == [1000.0, 1000.5]
    blocked = house.lease(2, node=house.nodes[1])
    assert (blocked.jobs, blocked.ring) == ((), False)
    assert blocked.due == pytest.approx(1000.9)
    house.now = 1000.95
    assert [j.send_at for j in house.lease(2).jobs] == [1001.0, 1001.5]


def test_a_late_lease_sends_from_now_on(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=1.0, concurrency=9, robots=False)})
    house.seed(*_pages("a", 5))
    house.lease(1)
    house.now += 60
    assert [j.send_at for j in house.lease(1).jobs] == [1060.0]


def test_the_last_ready_page_of_a_delayed_host_still_tells_when_the_next_may_go(houses: Houses) -> None:
    """Its children come while the host's clock runs: somebody must look again the moment it is due."""
    house = houses(manners={"a:80": HostPolicy(delay=0.3, concurrency=9, robots=False)})
    house.seed("http://a/1")
    got = house.lease(1)
    assert house.commit(house.done(got.jobs[0], links=[Page("http://a/2")])).ring == ()
    assert got.due == pytest.approx(1000.3 - sequences.LOOKAHEAD)
    house.now = got.due or 0.0
    with house.db.transaction():
        assert sequences.ring_all(house.db, house.run, house.now) == [1]


def test_backoff_holds_the_whole_host_until_it_ends(house: House) -> None:
    house.seed(*_pages("a", 5))
    house.seed(*_pages("a", 5, first=50), group="other")
    (job,) = house.take("http://a/", free=1)
    told = house.commit(JobOutcome(job=job, state=JobState.READY, not_before=1030.0, backoff_until=1030.0))
    assert told.due == (1030.0,)
    assert told.ring == ()
    for sequence in (1, 2):
        assert house.lease(sequence) == Lease(due=1030.0)
    with house.db.transaction():
        assert sequences.ring_all(house.db, house.run, 1029.99) == []
    assert hosts.get_backoff(house.db, 1) == (1, 1030.0)
    house.now = 1030.0
    assert len(house.lease(2).jobs) == 5


def test_a_shorter_backoff_does_not_shorten_a_longer_one_and_a_good_page_forgives_strikes(house: House) -> None:
    house.seed(*_pages("a", 3))
    one, two, three = house.take("http://a/")
    for job, until in ((one, 1090.0), (two, 1010.0)):
        house.commit(JobOutcome(job=job, state=JobState.READY, not_before=until, backoff_until=until))
    assert hosts.get_backoff(house.db, 1) == (2, 1090.0)
    house.commit(house.done(three))
    assert hosts.get_backoff(house.db, 1)[0] == 2, "no document: nothing was fetched"


@pytest.fixture
def gated(houses: Houses) -> House:
    """A host whose robots.txt is wanted, with one page."""
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=True)})
    house.seed("http://a/1")
    return house


def test_a_new_host_is_asked_for_its_robots_first(gated: House) -> None:
    kinds = dict(gated.db.all("SELECT kind, id FROM sequences"))
    assert gated.rung() == {kinds["robots"]}
    assert gated.lease(kinds["page"]).jobs == ()
    with gated.db.transaction():
        assert sequences.ring_all(gated.db, gated.run, gated.now) == []
    (robots,) = gated.lease(kinds["robots"]).jobs
    assert (robots.url, robots.kind) == ("http://a:80/robots.txt".replace(":80", ""), JobKind.ROBOTS)
    told = gated.commit(JobOutcome(job=robots, state=JobState.DONE, robots=RobotsResult(200, "User-agent: *", 2.0)))
    assert told.ring == (kinds["page"],)
    assert [j.delay for j in gated.lease(kinds["page"]).jobs] == [2.0]
    assert hosts.get_robots(gated.db, 1) == (200, "User-agent: *")


def test_robots_gate_sitemaps_as_well(gated: House) -> None:
    place = gated.place("http://a/sitemap.xml", kind=JobKind.SITEMAP)
    with gated.db.transaction():
        gated.db.execute("UPDATE jobs SET sequence = ? WHERE url = 'http://a/1'", (place.sequence,))
    assert gated.lease(place.sequence).jobs == ()


def test_robots_widen_a_delay_and_never_narrow_it(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=5.0, concurrency=8, robots=True)})
    house.seed("http://a/1")
    robots = house.db.value("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = house.lease(robots).jobs
    house.commit(JobOutcome(job=job, state=JobState.DONE, robots=RobotsResult(200, "", 2.0)))
    assert house.db.value("SELECT delay FROM hosts") == 5.0


# Rings.


def test_a_lease_that_took_all_leaves_the_bell_still_and_one_that_left_work_rings_again(house: House) -> None:
    house.seed(*_pages("a", 5))
    assert house.rung() == {1}
    assert house.lease(1, free=3).ring
    assert house.rung() == {1}
    assert not house.lease(1).ring
    assert house.rung() == set()


def test_a_lease_that_got_nothing_does_not_ring(house: House) -> None:
    house.seed("http://a/1")
    house.lease(1)
    assert house.lease(1) == Lease()


def test_seeds_and_children_ring_a_sequence_once(house: House) -> None:
    assert house.seed("http://a/1") == [1]
    assert house.seed("http://a/2") == [], "its bell is rung already"
    one, two = house.take("http://a/")
    assert house.commit(house.done(one, links=[Page("http://a/3"), Page("http://b/1")])).ring == (1, 2)
    assert house.commit(house.done(two, links=[Page("http://b/2")])).ring == ()


def test_a_retry_rings_when_it_is_due_and_not_before(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = house.commit(again(job, 1005.0))
    assert (told.ring, told.due) == ((), (1005.0,))
    assert jobs.next_due(house.db, house.run) == 1005.0
    assert house.counted()[1]["delayed"] == 1
    for now, promoted, rung in ((1004.9, 0, []), (1005.0, 1, [1])):
        with house.db.transaction():
            assert jobs.promote(house.db, house.run, now) == promoted
            assert sequences.ring_all(house.db, house.run, now) == rung
    assert jobs.next_due(house.db, house.run) is None
    (job,) = house.take("http://a/")
    assert job.attempts == 1
    house.check_counters()


def test_lost_rings_are_rung_anew_by_their_age(house: House) -> None:
    house.seed("http://a/1")
    house.now += 5
    house.seed("http://b/1")
    with house.db.transaction():
        assert sequences.ring_lost(house.db, house.run, 1000.0, house.now) == []
        assert sequences.ring_lost(house.db, house.run, 1004.0, house.now) == [1]
        assert sequences.ring_lost(house.db, house.run, 1004.0, house.now) == [], "rung a moment ago"
        sequences.clear_rings(house.db, house.run)
    assert house.rung() == set()


def test_rings_and_leases_agree_on_a_host_whose_clock_is_nearly_due(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=10.0, concurrency=9, robots=False)})
    house.seed(*_pages("a", 3))
    house.lease(1)
    for before, agreed in ((0.2, False), (0.05, True)):
        house.now = 1010.0 - before
        with house.db.transaction():
            assert bool(sequences.ring_hosts(house.db, [1], house.now)) is agreed
        assert bool(house.lease(1).jobs) is agreed


# Deadlines after a reboot.


def test_after_a_reboot_what_was_left_of_each_wait_is_waited_anew(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(again(one, 1008.0), JobOutcome(job=two, state=JobState.DONE, backoff_until=1004.0))
    with house.db.transaction():
        hosts.reserve(house.db, 1, 1002.0)
        jobs.shift_deadlines(house.db, -990.0)
        hosts.shift_deadlines(house.db, -990.0)
    assert jobs.next_due(house.db, house.run) == pytest.approx(18.0)
    assert house.db.all("SELECT next_at, backoff_until FROM hosts") == [(12.0, 14.0)]


def test_the_clock_of_deadlines_only_runs_forward() -> None:
    looks = [boottime() for _ in range(100)]
    assert looks == sorted(looks)
