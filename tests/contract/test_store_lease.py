"""The lease: fairness between sequences, politeness to hosts, limits on pages, and which job is first."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from store_house import House, Page, again, failed, moved

from engine.clock import boottime
from engine.errors import Fenced
from engine.model.job import JobKind, JobState
from engine.model.node import NodeState
from engine.store import hosts, jobs, nodes, runs, sequences
from engine.store.commit import Finished, Robots
from engine.store.hosts import Manners
from engine.store.lease import Lease

Houses = Callable[..., House]
WIDE = Manners(delay=0.0, concurrency=10_000, robots=False)


def _pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{i}" for i in range(first, first + count)]


def _urls(got: Lease) -> list[str]:
    return [job.url for job in got.jobs]


# Fairness.


def test_a_sequence_alone_may_use_every_slot_but_not_more_than_free_or_batch(houses: Houses) -> None:
    house = houses(slots=40, manners={"a:80": WIDE})
    house.seed(*_pages("a", 100))
    sequence = house.sequence("http://a/0")
    assert len(house.lease(sequence, free=7, batch=32).jobs) == 7
    assert len(house.lease(sequence, free=32, batch=10).jobs) == 10
    assert len(house.lease(sequence, free=32, batch=32).jobs) == 40 - 17
    assert house.lease(sequence).jobs == ()


@pytest.mark.parametrize(
    ("active", "slots", "expected"),
    [(2, 64, 29), (3, 64, 19), (5, 64, 11), (2, 4, 2), (3, 4, 1), (64, 64, 1), (100, 64, 1), (7, 32, 4)],
)
def test_others_that_wait_leave_a_sequence_nine_tenths_of_its_quota_and_one_at_least(
    houses: Houses, active: int, slots: int, expected: int
) -> None:
    house = houses(slots=slots, manners={f"h{i}:80": WIDE for i in range(active)})
    for i in range(active):
        house.seed(*_pages(f"h{i}", 70))
    got = house.lease(house.sequence("http://h0/0"), free=64, batch=64)
    assert len(got.jobs) == expected
    assert house.lease(house.sequence("http://h0/0"), free=64, batch=64).jobs == ()
    house.check_counters()


def test_slots_nobody_waits_for_go_to_any_sequence_with_work(houses: Houses) -> None:
    house = houses(slots=20, manners={"a:80": WIDE, "b:80": WIDE})
    house.seed(*_pages("a", 50))
    house.seed(*_pages("b", 2))
    a, b = house.sequence("http://a/0"), house.sequence("http://b/0")
    assert len(house.lease(b).jobs) == 2, "b has all its work in hand and waits for nothing"
    assert house.rung() == {a}
    assert len(house.lease(a, free=32).jobs) == 20


def test_the_quota_counts_jobs_running_on_every_node(houses: Houses) -> None:
    house = houses(slots=20, nodes_=2, manners={"a:80": WIDE, "b:80": WIDE})
    house.seed(*_pages("a", 50))
    house.seed(*_pages("b", 50))
    a = house.sequence("http://a/0")
    assert len(house.lease(a, node=house.nodes[0], free=6).jobs) == 6
    assert len(house.lease(a, node=house.nodes[1], free=32).jobs) == 9 - 6


def test_the_quota_grows_when_a_sequence_ends(houses: Houses) -> None:
    house = houses(slots=20, manners={"a:80": WIDE, "b:80": WIDE})
    house.seed(*_pages("a", 50))
    house.seed("http://b/0")
    house.finish_all("http://b/0")
    assert len(house.take("http://a/0")) == 20


# Which job is first.


def test_higher_priority_first_then_first_in_first_out(house: House) -> None:
    house.seed("http://a/1", "http://a/2", name="low", priority=-1)
    house.seed("http://a/3", "http://a/4", name="mid")
    house.seed("http://a/5", "http://a/6", name="high", priority=7)
    assert [job.url[-1] for job in house.take("http://a/")] == ["5", "6", "3", "4", "1", "2"]


def test_a_job_given_back_keeps_its_place(house: House) -> None:
    house.seed(*_pages("a", 3))
    first = house.take("http://a/", free=1)[0]
    house.commit(again(first))
    assert [job.url for job in house.take("http://a/")] == _pages("a", 3)


def test_a_page_is_leased_once_at_a_time_though_several_jobs_want_it(house: House) -> None:
    house.seed("http://a/1", "http://a/2", name="x")
    house.seed("http://a/1", name="y")
    house.seed("http://a/1", group="other")
    first = house.take("http://a/")
    assert [(j.url, j.locator) for j in first] == [("http://a/1", "x"), ("http://a/2", "x")]
    assert house.take("http://a/") == ()
    assert house.take("http://a/", "other") == (), "another group wants the page that is under way"
    house.commit(*map(house.done, first))
    assert [j.locator for j in house.take("http://a/")] == ["y"]


def test_a_page_that_a_redirect_leads_to_is_leased_once_at_a_time(house: House) -> None:
    house.seed("http://a/old", "http://a/older", "http://a/new")
    old, older, new = house.take("http://a/")
    house.commit(moved(old, "http://a/new"), moved(older, "http://a/new"), again(new))
    (one,) = house.take("http://a/")
    assert (one.url, one.target, one.hops) == ("http://a/old", "http://a/new", 1)
    house.commit(house.done(one))
    assert [j.url for j in house.take("http://a/")] == ["http://a/older"]


def test_a_target_claimed_in_flight_keeps_others_off_it(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    one, two = house.take("http://a/", free=2)
    with house.db.transaction():
        assert jobs.claim_target(house.db, one, "http://a/3")
        assert not jobs.claim_target(house.db, two, "http://a/3"), "one is at it"
        assert jobs.claim_target(house.db, one, "http://a/3"), "its own claim is no obstacle"
    assert house.take("http://a/") == ()
    with house.db.transaction():
        jobs.release(house.db, house.nodes[0], "x", crashed=False)
        assert not jobs.claim_target(house.db, two, "http://a/9"), "the lease is lost"


def test_a_lease_tells_what_a_node_needs_to_know(houses: Houses) -> None:
    house = houses(manners={"a:80": Manners(delay=0.5, concurrency=4, robots=False)})
    house.seed("http://a/1", priority=3)
    (root,) = house.take("http://a/")
    assert (root.root, root.locator, root.locator_url, root.depth) == (root.id, "l", "http://a/1", 0)
    assert (root.group, root.kind, root.priority, root.attempts, root.run) == ("g", JobKind.PAGE, 3, 0, house.run)
    assert (root.lease, root.delay, root.send_at, root.defs_version) == (house.nodes[0] << 32 | 1, 0.5, house.now, 1)
    house.commit(house.done(root, links=[Page("http://a/2", depth=1, priority=2)]))
    house.now += 10
    (leaf,) = house.take("http://a/")
    assert (leaf.root, leaf.locator, leaf.locator_url, leaf.depth) == (root.id, "l", "http://a/1", 1)
    assert (leaf.priority, leaf.origin) == (2, "link")


# Hosts.


def test_host_concurrency_holds_across_groups_and_nodes(houses: Houses) -> None:
    house = houses(nodes_=2, manners={"a:80": Manners(delay=0.0, concurrency=5, robots=False)})
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
    house = houses(manners={"a:80": Manners(delay=0.0, concurrency=2, robots=False)})
    assert house.seed(*_pages("a", 5)) == [1]
    taken = house.lease(1).jobs
    assert house.rung() == set()
    with house.db.transaction():
        assert sequences.ring_hosts(house.db, [1], house.now) == []
    assert house.commit(house.done(taken[0])).ring == (1,)
    assert house.commit(house.done(taken[1])).ring == (), "its bell is rung already"


@pytest.mark.parametrize(("delay", "booked"), [(0.1, 10), (0.3, 3), (0.5, 2), (0.7, 1), (1.0, 1), (3.0, 1), (30, 1)])
def test_a_delay_books_a_second_of_send_times_and_one_at_least(houses: Houses, delay: float, booked: int) -> None:
    house = houses(manners={"a:80": Manners(delay=delay, concurrency=100, robots=False)})
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
    house = houses(nodes_=2, manners={"a:80": Manners(delay=0.5, concurrency=100, robots=False)})
    house.seed(*_pages("a", 9))
    house.seed(*_pages("a", 9, first=50), group="other")
    assert [j.send_at for j in house.lease(1).jobs] == [1000.0, 1000.5]
    blocked = house.lease(2, node=house.nodes[1])
    assert (blocked.jobs, blocked.ring) == ((), False)
    assert blocked.due == pytest.approx(1000.9)
    house.now = 1000.95
    assert [j.send_at for j in house.lease(2).jobs] == [1001.0, 1001.5]


def test_a_late_lease_sends_from_now_on(houses: Houses) -> None:
    house = houses(manners={"a:80": Manners(delay=1.0, concurrency=9, robots=False)})
    house.seed(*_pages("a", 5))
    house.lease(1)
    house.now += 60
    assert [j.send_at for j in house.lease(1).jobs] == [1060.0]


def test_the_last_ready_page_of_a_delayed_host_still_tells_when_the_next_may_go(houses: Houses) -> None:
    """Its children come while the host's clock runs: somebody must look again the moment it is due."""
    house = houses(manners={"a:80": Manners(delay=0.3, concurrency=9, robots=False)})
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
    told = house.commit(Finished(job=job, state=JobState.READY, not_before=1030.0, backoff_until=1030.0))
    assert told.due == (1030.0,)
    assert told.ring == ()
    for sequence in (1, 2):
        assert house.lease(sequence) == Lease(due=1030.0)
    with house.db.transaction():
        assert sequences.ring_all(house.db, house.run, 1029.99) == []
    assert hosts.standing(house.db, 1) == (1, 1030.0)
    house.now = 1030.0
    assert len(house.lease(2).jobs) == 5


def test_a_shorter_backoff_does_not_shorten_a_longer_one_and_a_good_page_forgives_strikes(house: House) -> None:
    house.seed(*_pages("a", 3))
    one, two, three = house.take("http://a/")
    for job, until in ((one, 1090.0), (two, 1010.0)):
        house.commit(Finished(job=job, state=JobState.READY, not_before=until, backoff_until=until))
    assert hosts.standing(house.db, 1) == (2, 1090.0)
    house.commit(house.done(three))
    assert hosts.standing(house.db, 1)[0] == 2, "no document: nothing was fetched"


@pytest.fixture
def gated(houses: Houses) -> House:
    """A host whose robots.txt is wanted, with one page."""
    house = houses(manners={"a:80": Manners(delay=0.0, concurrency=8, robots=True)})
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
    told = gated.commit(Finished(job=robots, state=JobState.DONE, robots=Robots(200, "User-agent: *", 2.0)))
    assert told.ring == (kinds["page"],)
    assert [j.delay for j in gated.lease(kinds["page"]).jobs] == [2.0]
    assert hosts.robots(gated.db, 1) == (200, "User-agent: *")


def test_robots_gate_sitemaps_as_well(gated: House) -> None:
    place = gated.place("http://a/sitemap.xml", kind=JobKind.SITEMAP)
    with gated.db.transaction():
        gated.db.execute("UPDATE jobs SET sequence = ? WHERE url = 'http://a/1'", (place.sequence,))
    assert gated.lease(place.sequence).jobs == ()


def test_robots_widen_a_delay_and_never_narrow_it(houses: Houses) -> None:
    house = houses(manners={"a:80": Manners(delay=5.0, concurrency=8, robots=True)})
    house.seed("http://a/1")
    robots = house.db.value("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = house.lease(robots).jobs
    house.commit(Finished(job=job, state=JobState.DONE, robots=Robots(200, "", 2.0)))
    assert house.db.value("SELECT delay FROM hosts") == 5.0


# Pauses, ends, limits.


@pytest.mark.parametrize("why", ["operator", "disk"])
def test_a_paused_run_gives_no_lease(house: House, why: str) -> None:
    house.seed("http://a/1")
    with house.db.transaction():
        runs.pause(house.db, house.run, why)
    assert house.lease(1) == Lease()
    with house.db.transaction():
        runs.pause(house.db, house.run, None)
    assert len(house.lease(1).jobs) == 1


def test_a_paused_sequence_gives_no_lease_and_is_not_rung(house: House) -> None:
    house.seed("http://a/1")
    house.seed("http://b/1")
    with house.db.transaction():
        assert sequences.pause(house.db, house.run, 1, True) == 1
        sequences.silence(house.db, house.run)
        assert sequences.ring_all(house.db, house.run, house.now) == [2]
    assert house.lease(1).jobs == ()
    with house.db.transaction():
        assert sequences.pause(house.db, house.run, None, False) == 2
        assert sequences.ring_all(house.db, house.run, house.now) == [1]
    assert len(house.lease(1).jobs) == 1


@pytest.mark.parametrize("state", ["NEW", "SEEDING", "READY", "DRAINING", "DONE", "CANCELLED", "KILLED", "FAILED"])
def test_only_a_run_under_way_gives_leases(house: House, state: str) -> None:
    house.seed("http://a/1")
    with house.db.transaction():
        house.db.execute("UPDATE runs SET state = ?", (state,))
    assert len(house.lease(1).jobs) == (state in ("SEEDING", "READY", "DRAINING"))


def test_a_group_gets_no_more_than_its_pages_over_all_its_hosts(houses: Houses) -> None:
    house = houses(max_pages={"g": 5})
    house.seed(*_pages("a", 10))
    house.seed(*_pages("b", 10))
    house.seed(*_pages("a", 10, first=100), group="free")
    a, b = house.sequence("http://a/"), house.sequence("http://b/")
    first = house.lease(a, free=3).jobs
    assert len(house.lease(b).jobs) == 2
    assert house.lease(a).jobs == (), "those under way count as begun"
    assert not [state for _, state in house.jobs() if state == "SKIPPED"], "one of them may fail yet"
    house.commit(failed(first[0]), house.done(first[1]), house.done(first[2]))
    assert len(house.lease(b).jobs) == 1, "a failed page gives its place to another"
    assert len(house.take("http://a/", "free")) > 1
    held = [j for j in _held(house) if j[1] in (a, b)]
    assert len(held) == 3


def _held(house: House) -> list[tuple[int, int]]:
    return house.db.all("SELECT id, sequence FROM jobs WHERE state = 'TAKEN'")


def test_pages_beyond_the_limit_of_a_group_are_skipped_with_the_reason(houses: Houses) -> None:
    house = houses(max_pages={"g": 2})
    house.seed(*_pages("a", 6))
    house.commit(*map(house.done, house.take("http://a/")))
    assert house.lease(1) == Lease()
    assert house.counted()[1] == {**dict.fromkeys(house.counted()[1], 0), "done": 2, "skipped": 4}
    assert house.db.value("SELECT count(*) FROM jobs WHERE reason = 'maxPages 2 of g reached'") == 4
    house.check_counters()
    assert not jobs.any_open(house.db, house.run)


def test_a_run_begins_no_more_than_its_pages(house: House) -> None:
    house.seed(*_pages("a", 6))
    house.seed(*_pages("b", 6))
    with house.db.transaction():
        runs.set_limits(house.db, house.run, 7, None)
    assert [len(house.take(f"http://{h}/")) for h in "ab"] == [6, 1]
    assert house.take("http://b/") == ()
    assert house.db.value("SELECT count(*) FROM jobs WHERE state = 'READY'") == 5, "they wait for the next start"


def test_a_fenced_node_gets_nothing_and_is_told_so(house: House) -> None:
    house.seed("http://a/1")
    with house.db.transaction():
        nodes.move(house.db, house.nodes[0], NodeState.DEAD)
    with pytest.raises(Fenced, match="is over"):
        house.lease(1)
    assert house.jobs() == [("http://a/1", "READY")]
    with pytest.raises(Fenced):
        house.lease(1, node=99)


def test_a_sequence_that_is_not_there_gives_nothing(house: House) -> None:
    assert house.lease(99) == Lease()


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
        sequences.silence(house.db, house.run)
    assert house.rung() == set()


def test_rings_and_leases_agree_on_a_host_whose_clock_is_nearly_due(houses: Houses) -> None:
    house = houses(manners={"a:80": Manners(delay=10.0, concurrency=9, robots=False)})
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
    house.commit(again(one, 1008.0), Finished(job=two, state=JobState.DONE, backoff_until=1004.0))
    with house.db.transaction():
        hosts.reserve(house.db, 1, 1002.0)
        jobs.rebase(house.db, -990.0)
        hosts.rebase(house.db, -990.0)
    assert jobs.next_due(house.db, house.run) == pytest.approx(18.0)
    assert house.db.all("SELECT next_at, backoff_until FROM hosts") == [(12.0, 14.0)]


def test_the_clock_of_deadlines_only_runs_forward() -> None:
    looks = [boottime() for _ in range(100)]
    assert looks == sorted(looks)
