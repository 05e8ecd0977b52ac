"""The lease: fairness between sequences, which job is first, and limits on pages."""

from collections.abc import Callable

import pytest

from engine.errors import Fenced
from engine.model.job import JobKind
from engine.model.node import NodeState
from engine.store.tables import jobs, nodes, runs, sequences
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.lease import Lease, lease
from tests.contract.store.house import House, Page, again, failed, moved

Houses = Callable[..., House]
WIDE = HostPolicy(delay=0.0, concurrency=10_000, robots=False)


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
    house = houses(manners={"a:80": HostPolicy(delay=0.5, concurrency=4, robots=False)})
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


# Pauses, ends, limits.


@pytest.mark.parametrize("why", ["operator", "disk"])
def test_a_paused_run_gives_no_lease(house: House, why: str) -> None:
    house.seed("http://a/1")
    with house.db.transaction():
        hold(house, why, True)
    assert house.lease(1) == Lease()
    with house.db.transaction():
        hold(house, why, False)
    assert len(house.lease(1).jobs) == 1


def hold(house: House, why: str, held: bool) -> None:
    if why == "disk":
        runs.hold_for_disk(house.db, house.run, held)
    else:
        runs.pause(house.db, house.run, "operator" if held else None)


@pytest.mark.parametrize("first", ["operator", "disk"])
@pytest.mark.parametrize("let_go", ["operator", "disk"])
def test_a_run_held_by_two_is_let_go_by_both(house: House, first: str, let_go: str) -> None:
    second = {"operator": "disk", "disk": "operator"}
    house.seed("http://a/1")
    for why in (first, first, second[first]):
        with house.db.transaction():
            hold(house, why, True)
    assert runs.get(house.db, house.run).paused == "operator, disk"
    with house.db.transaction():
        hold(house, let_go, False)
    assert runs.get(house.db, house.run).paused == second[let_go]
    assert house.lease(1) == Lease()
    with house.db.transaction():
        hold(house, second[let_go], False)
    assert runs.get(house.db, house.run).paused is None
    assert len(house.lease(1).jobs) == 1


def test_a_paused_sequence_gives_no_lease_and_is_not_rung(house: House) -> None:
    house.seed("http://a/1")
    house.seed("http://b/1")
    with house.db.transaction():
        assert sequences.pause(house.db, house.run, "1", True) == 1
        sequences.clear_rings(house.db, house.run)
        assert sequences.ring_all(house.db, house.run, house.now) == [2]
    assert house.lease(1).jobs == ()
    with house.db.transaction():
        assert sequences.pause(house.db, house.run, "1", False) == 1
        assert sequences.ring_all(house.db, house.run, house.now) == [1]
    assert len(house.lease(1).jobs) == 1


def test_sequences_are_paused_by_id_group_or_place(house: House) -> None:
    house.seed("http://a/1")
    house.seed("http://b/1")
    [(group, host)] = house.db.all("SELECT s.grp, h.key FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.id = 2")
    with house.db.transaction():
        assert sequences.pause(house.db, house.run, f"{group}@{host}", True) == 1
        assert sequences.pause(house.db, house.run, group, True) == 1, "one was paused already"
        assert sequences.pause(house.db, house.run, "2", False) == 1
        assert sequences.pause(house.db, house.run, "nothing", True) == 0


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
    assert not jobs.has_open_jobs(house.db, house.run)


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
        nodes.set_state(house.db, house.nodes[0], NodeState.DEAD)
    with pytest.raises(Fenced, match="is over"):
        house.lease(1)
    assert house.jobs() == [("http://a/1", "READY")]
    with pytest.raises(Fenced):
        house.lease(1, node=99)


def test_a_sequence_that_is_not_there_gives_nothing(house: House) -> None:
    assert house.lease(99) == Lease()


def test_who_is_served_first_no_longer_waits_beside_the_next(houses: Houses) -> None:
    house = houses(slots=64, manners={"a:80": WIDE, "b:80": WIDE})
    house.seed("http://a/1")
    house.seed(*[f"http://b/{number}" for number in range(200)])
    one, two = house.sequence("http://a/1"), house.sequence("http://b/1")
    house.lease(two, free=29)
    first, second = lease(house.db, house.wish(free=20), [one, two], house.now)
    assert (len(first.jobs), len(second.jobs)) == (1, 19)
    assert (first.ring, second.ring) == (False, True)
