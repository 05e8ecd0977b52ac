"""The lease: fairness between sequences, which job is first, and limits on pages."""

from collections.abc import Callable

import pytest

from crawl_engine.errors import Fenced
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.model.node import NodeState
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import nodes, runs
from crawl_engine.store.transactions.lease import Lease
from tests.contract.store.harness import REQUEST, Page, StoreHarness, again, failed, moved

NewStore = Callable[..., StoreHarness]
WIDE = HostPolicy(delay=0.0, concurrency=10_000, robots=False)


def _pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{i}" for i in range(first, first + count)]


def _urls(got: Lease) -> list[str]:
    return [job.url for job in got.jobs]


# Fairness.


def test_a_sequence_alone_may_use_every_slot_but_not_more_than_free_or_batch(new_store: NewStore) -> None:
    store = new_store(slots=40, policies={"a:80": WIDE})
    store.seed(*_pages("a", 100))
    sequence = store.sequence("http://a/0")
    assert len(store.lease(sequence, free=7, batch=32).jobs) == 7
    assert len(store.lease(sequence, free=32, batch=10).jobs) == 10
    assert len(store.lease(sequence, free=32, batch=32).jobs) == 40 - 17
    assert store.lease(sequence).jobs == ()


@pytest.mark.parametrize(
    ("active", "slots", "expected"),
    [(2, 64, 29), (3, 64, 19), (5, 64, 11), (2, 4, 2), (3, 4, 1), (64, 64, 1), (100, 64, 1), (7, 32, 4)],
)
def test_a_sequence_gets_nine_tenths_of_its_quota_and_at_least_one_job_while_others_wait(
    new_store: NewStore, active: int, slots: int, expected: int
) -> None:
    store = new_store(slots=slots, policies={f"h{i}:80": WIDE for i in range(active)})
    for i in range(active):
        store.seed(*_pages(f"h{i}", 70))
    got = store.lease(store.sequence("http://h0/0"), free=64, batch=64)
    assert len(got.jobs) == expected
    assert store.lease(store.sequence("http://h0/0"), free=64, batch=64).jobs == ()
    store.check_counters()


def test_idle_slots_go_to_any_sequence_with_work(new_store: NewStore) -> None:
    store = new_store(slots=20, policies={"a:80": WIDE, "b:80": WIDE})
    store.seed(*_pages("a", 50))
    store.seed(*_pages("b", 2))
    a, b = store.sequence("http://a/0"), store.sequence("http://b/0")
    assert len(store.lease(b).jobs) == 2, "all jobs of b are leased"
    assert store.rung() == {a}
    assert len(store.lease(a, free=32).jobs) == 20


def test_the_quota_counts_jobs_running_on_every_node(new_store: NewStore) -> None:
    store = new_store(slots=20, nodes_=2, policies={"a:80": WIDE, "b:80": WIDE})
    store.seed(*_pages("a", 50))
    store.seed(*_pages("b", 50))
    a = store.sequence("http://a/0")
    assert len(store.lease(a, node=store.nodes[0], free=6).jobs) == 6
    assert len(store.lease(a, node=store.nodes[1], free=32).jobs) == 9 - 6


def test_the_quota_grows_when_a_sequence_ends(new_store: NewStore) -> None:
    store = new_store(slots=20, policies={"a:80": WIDE, "b:80": WIDE})
    store.seed(*_pages("a", 50))
    store.seed("http://b/0")
    store.finish_all("http://b/0")
    assert len(store.take("http://a/0")) == 20


# Which job is first.


def test_higher_priority_first_then_first_in_first_out(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", name="low", priority=-1)
    store.seed("http://a/3", "http://a/4", name="mid")
    store.seed("http://a/5", "http://a/6", name="high", priority=7)
    assert [job.url[-1] for job in store.take("http://a/")] == ["5", "6", "3", "4", "1", "2"]


def test_a_released_job_keeps_its_position(store: StoreHarness) -> None:
    store.seed(*_pages("a", 3))
    first = store.take("http://a/", free=1)[0]
    store.commit(again(first))
    assert [job.url for job in store.take("http://a/")] == _pages("a", 3)


def test_a_page_is_leased_once_at_a_time_even_if_several_jobs_need_it(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", name="x")
    store.seed("http://a/1", name="y")
    store.seed("http://a/1", group="other")
    first = store.take("http://a/")
    assert [(j.url, j.lineage.locator) for j in first] == [("http://a/1", "x"), ("http://a/2", "x")]
    assert store.take("http://a/") == ()
    assert store.take("http://a/", "other") == (), "another group needs the page that is being fetched"
    store.commit(*map(store.done, first))
    assert [j.lineage.locator for j in store.take("http://a/")] == ["y"]


def test_different_bodies_for_one_url_are_leased_together(store: StoreHarness) -> None:
    for body in ("q=1", "q=2", "q=3"):
        store.seed("http://a/s", method="POST", body=body, request=REQUEST.replace("null", f'"{body}"', 1))
    store.seed("http://a/s", method="POST", body="q=1", name="m", request=REQUEST.replace("null", '"q=1"', 1))
    store.seed("http://a/s")
    first = store.take("http://a/s", free=2)
    assert [job.request.body for job in first] == ["q=1", "q=2"]
    second = store.take("http://a/s")
    assert [job.request.body for job in second] == ["q=3"], "one body is asked for once at a time"
    store.commit(*map(store.done, [*first, *second]))
    (shared,) = store.take("http://a/s", free=1)
    assert (shared.lineage.locator, shared.request.body) == ("m", "q=1")


def test_a_page_that_a_redirect_leads_to_is_leased_once_at_a_time(store: StoreHarness) -> None:
    store.seed("http://a/old", "http://a/older", "http://a/new")
    old, older, new = store.take("http://a/")
    store.commit(moved(old, "http://a/new"), moved(older, "http://a/new"), again(new))
    (one,) = store.take("http://a/")
    assert (one.url, one.target, one.hops) == ("http://a/old", "http://a/new", 1)
    store.commit(store.done(one))
    assert [j.url for j in store.take("http://a/")] == ["http://a/older"]


def test_a_claimed_target_is_not_fetched_by_another_job(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two = store.take("http://a/", free=2)
    with store.db.transaction():
        assert jobs.claim_target(store.db, one, "http://a/3")
        assert not jobs.claim_target(store.db, two, "http://a/3"), "another job fetches it"
        assert jobs.claim_target(store.db, one, "http://a/3"), "a job may repeat its claim"
    assert store.take("http://a/") == ()
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "x", crashed=False)
        assert not jobs.claim_target(store.db, two, "http://a/9"), "the lease is lost"


def test_a_leased_job_has_all_that_a_node_needs(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.5, concurrency=4, robots=False)})
    store.seed("http://a/1", priority=3)
    (root,) = store.take("http://a/")
    assert (root.lineage.root, root.lineage.locator, root.lineage.locator_url, root.lineage.depth) == (
        root.id,
        "l",
        "http://a/1",
        0,
    )
    assert (root.group, root.kind, root.lineage.priority, root.attempts, root.run) == (
        "g",
        JobKind.PAGE,
        3,
        0,
        store.run,
    )
    assert (root.lease, root.terms.delay, root.terms.send_at, root.defs_version) == (
        store.nodes[0] << 32 | 1,
        0.5,
        store.now,
        1,
    )
    store.commit(store.done(root, links=[Page("http://a/2", depth=1, priority=2)]))
    store.now += 10
    (leaf,) = store.take("http://a/")
    assert (leaf.lineage.root, leaf.lineage.locator, leaf.lineage.locator_url, leaf.lineage.depth) == (
        root.id,
        "l",
        "http://a/1",
        1,
    )
    assert (leaf.lineage.priority, leaf.lineage.origin) == (2, "link")


# Pauses, ends, limits.


@pytest.mark.parametrize("why", ["operator", "disk"])
def test_a_paused_run_is_not_leased(store: StoreHarness, why: str) -> None:
    store.seed("http://a/1")
    with store.db.transaction():
        hold(store, why, True)
    assert store.lease(1) == Lease()
    with store.db.transaction():
        hold(store, why, False)
    assert len(store.lease(1).jobs) == 1


def hold(store: StoreHarness, why: str, held: bool) -> None:
    if why == "disk":
        runs.hold_for_disk(store.db, store.run, held)
    else:
        runs.pause(store.db, store.run, "operator" if held else None)


@pytest.mark.parametrize("first", ["operator", "disk"])
@pytest.mark.parametrize("let_go", ["operator", "disk"])
def test_a_run_paused_twice_resumes_when_both_pauses_end(store: StoreHarness, first: str, let_go: str) -> None:
    second = {"operator": "disk", "disk": "operator"}
    store.seed("http://a/1")
    for why in (first, first, second[first]):
        with store.db.transaction():
            hold(store, why, True)
    assert runs.get(store.db, store.run).paused == "operator, disk"
    with store.db.transaction():
        hold(store, let_go, False)
    assert runs.get(store.db, store.run).paused == second[let_go]
    assert store.lease(1) == Lease()
    with store.db.transaction():
        hold(store, second[let_go], False)
    assert runs.get(store.db, store.run).paused is None
    assert len(store.lease(1).jobs) == 1


def test_a_paused_sequence_is_not_leased_and_not_rung(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.seed("http://b/1")
    with store.db.transaction():
        assert sequences.pause(store.db, store.run, "1", True) == 1
        rings.clear_rings(store.db, store.run)
        assert rings.ring_all(store.db, store.run, store.now) == [2]
    assert store.lease(1).jobs == ()
    with store.db.transaction():
        assert sequences.pause(store.db, store.run, "1", False) == 1
        assert rings.ring_all(store.db, store.run, store.now) == [1]
    assert len(store.lease(1).jobs) == 1


def test_sequences_are_paused_by_id_group_or_place(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.seed("http://b/1")
    [(group, host)] = store.db.all("SELECT s.grp, h.key FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.id = 2")
    with store.db.transaction():
        assert sequences.pause(store.db, store.run, f"{group}@{host}", True) == 1
        assert sequences.pause(store.db, store.run, group, True) == 1, "one was paused already"
        assert sequences.pause(store.db, store.run, "2", False) == 1
        assert sequences.pause(store.db, store.run, "nothing", True) == 0


@pytest.mark.parametrize("state", ["NEW", "SEEDING", "READY", "DRAINING", "DONE", "CANCELLED", "KILLED", "FAILED"])
def test_only_an_active_run_is_leased(store: StoreHarness, state: str) -> None:
    store.seed("http://a/1")
    with store.db.transaction():
        store.db.execute("UPDATE runs SET state = ?", (state,))
    assert len(store.lease(1).jobs) == (state in ("SEEDING", "READY", "DRAINING"))


def test_a_group_gets_no_more_than_its_pages_over_all_its_hosts(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 5})
    store.seed(*_pages("a", 10))
    store.seed(*_pages("b", 10))
    store.seed(*_pages("a", 10, first=100), group="free")
    a, b = store.sequence("http://a/"), store.sequence("http://b/")
    first = store.lease(a, free=3).jobs
    assert len(store.lease(b).jobs) == 2
    assert store.lease(a).jobs == (), "taken jobs count as started"
    assert not [state for _, state in store.jobs() if state == "SKIPPED"], "one of them may still fail"
    unsent = JobOutcome(job=first[0], state=JobState.READY)
    store.commit(unsent, failed(first[1]), again(first[2], not_before=5000.0))
    assert len(store.lease(b).jobs) == 1, "what was not sent does not count; what failed or is retried does"
    assert len(store.take("http://a/", "free")) > 1
    held = [j for j in _held(store) if j[1] in (a, b)]
    assert len(held) == 3


def _held(store: StoreHarness) -> list[tuple[int, int]]:
    return store.db.all("SELECT id, sequence FROM jobs WHERE state = 'TAKEN'")


def test_pages_beyond_the_limit_of_a_group_are_skipped_with_the_reason(new_store: NewStore) -> None:
    store = new_store(max_pages={"g": 2})
    store.seed(*_pages("a", 6))
    store.commit(*map(store.done, store.take("http://a/")))
    assert store.lease(1) == Lease()
    assert store.stored_counters()[1] == {**dict.fromkeys(store.stored_counters()[1], 0), "done": 2, "skipped": 4}
    assert store.db.value("SELECT count(*) FROM jobs WHERE reason = 'maxPages 2 of g reached'") == 4
    store.check_counters()
    assert not jobs.has_open_jobs(store.db, store.run)


def test_a_run_starts_no_more_than_its_page_limit(store: StoreHarness) -> None:
    store.seed(*_pages("a", 6))
    store.seed(*_pages("b", 6))
    store.limit("run", "", 7)
    assert [len(store.take(f"http://{h}/")) for h in "ab"] == [6, 1]
    assert store.take("http://b/") == ()
    assert store.db.value("SELECT count(*) FROM jobs WHERE state = 'READY'") == 5, "they stay for the next start"


def test_a_fenced_node_gets_an_error_and_no_jobs(store: StoreHarness) -> None:
    store.seed("http://a/1")
    with store.db.transaction():
        nodes.set_state(store.db, store.nodes[0], NodeState.DEAD)
    with pytest.raises(Fenced, match="is over"):
        store.lease(1)
    assert store.jobs() == [("http://a/1", "READY")]
    with pytest.raises(Fenced):
        store.lease(1, node=99)


def test_an_answered_sequence_no_longer_counts_as_waiting(new_store: NewStore) -> None:
    store = new_store(slots=64, policies={"a:80": WIDE, "b:80": WIDE})
    store.seed("http://a/1")
    store.seed(*[f"http://b/{number}" for number in range(200)])
    store.lease(store.sequence("http://b/1"), free=29)
    first, second = store.lease_rung(free=20)
    assert (len(first.jobs), len(second.jobs)) == (1, 19)
    assert (first.ring, second.ring) == (False, True)
