"""The commit that frees slots fills them from the sequences that wait longest."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions import lease
from tests.contract.store.harness import Page, StoreHarness, traced

NewStore = Callable[..., StoreHarness]
WIDE = HostPolicy(delay=0.0, concurrency=100, robots=False)


def pages(host: str, count: int, first: int = 0) -> list[str]:
    return [f"http://{host}/{first + i}" for i in range(count)]


@pytest.mark.sqlite
def test_freed_slots_are_filled_in_the_transaction_that_frees_them(store: StoreHarness) -> None:
    store.seed(*pages("a", 10))
    first = store.lease(1, free=4).jobs
    with traced(store.db) as seen:
        result = store.commit(*map(store.done, first[:3]), free=3, held=1)
    assert [job.url for job in result.leased] == pages("a", 3, first=4)
    assert result.leased[0].lease != first[0].lease
    assert [s for s in seen if s.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert store.db.one("SELECT taken, done FROM sequences WHERE id = 1") == (4, 3)


def test_without_a_lease_request_the_commit_only_rings(new_store: NewStore) -> None:
    store = new_store(slots=2, policies={"a:80": HostPolicy(delay=0.0, concurrency=2, robots=False)})
    store.seed(*pages("a", 6))
    result = store.commit(store.done(store.lease(1, free=2).jobs[0]))
    assert (result.leased, result.ring) == ((), (1,))


def test_a_rung_sequence_comes_first(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": WIDE, "b:80": WIDE})
    store.seed(*pages("a", 6))
    store.seed(*pages("b", 6))
    taken = store.lease(1, free=3).jobs
    result = store.commit(*map(store.done, taken[:2]), free=2, held=1)
    assert [job.url for job in result.leased] == pages("b", 2)
    assert set(result.ring) == store.rung() == {1, 2}, "both have work left"


HOSTS = "abcdefghijkl"


def test_many_sequences_take_turns_whoever_leases(new_store: NewStore) -> None:
    store = new_store(slots=8, nodes_=2, policies={f"{name}:80": WIDE for name in HOSTS})
    for name in HOSTS:
        store.now += 1
        store.seed(*pages(name, 9))
    held: list[LeasedJob] = []
    given = Counter(dict.fromkeys(HOSTS, 0))

    def take(leased: Iterable[LeasedJob]) -> None:
        store.now += 1
        for job in leased:
            held.append(job)
            given[job.url[len("http://")]] += 1
            assert max(given.values()) - min(given.values()) <= 2

    take(job for got in store.lease_rung(free=5) for job in got.jobs)
    while held:
        committed, held[:] = held[:3], held[3:]
        take(store.commit(*map(store.done, committed), free=3, held=len(held)).leased)
        if sum(given.values()) % 7 == 0:
            take(job for got in store.lease_rung(free=2, node=store.nodes[1]) for job in got.jobs)
    assert set(given.values()) == {9}
    store.check_counters()


@pytest.mark.sqlite
def test_a_commit_leases_from_many_hosts_in_a_few_statements(new_store: NewStore) -> None:
    def statements(count: int) -> int:
        names = [f"h{number}" for number in range(count)]
        store = new_store(slots=count, policies={f"{name}:80": WIDE for name in names})
        for name in names:
            store.seed(*pages(name, 2))
        held = [job for got in store.lease_rung(free=count) for job in got.jobs]
        assert len(held) == count
        with traced(store.db) as seen:
            result = store.commit(*map(store.done, held), free=count)
        assert len(result.leased) == count
        assert result.ring == ()
        assert store.rung() == set()
        return len(set(seen))  # a trigger shows the statement that fires it once more

    assert statements(24) == statements(8)


@pytest.mark.sqlite
def test_hosts_with_a_delay_are_leased_from_in_a_few_statements_too(new_store: NewStore) -> None:
    def statements(count: int) -> int:
        names = [f"h{number}" for number in range(count)]
        delayed = HostPolicy(delay=0.5, concurrency=8, robots=False)
        store = new_store(slots=count, policies={f"{name}:80": delayed for name in names})
        for name in names:
            store.seed(*pages(name, 2))
        with traced(store.db) as seen:
            leases = store.lease_rung(free=count)
        assert [(len(got.jobs), got.due) for got in leases] == [(1, store.now + 0.4)] * count
        assert store.db.all("SELECT DISTINCT next_at FROM hosts") == [(store.now + 0.5,)]
        return len(set(seen))

    assert statements(16) == statements(8)


def test_a_sequence_with_work_left_waits_behind_the_others(store: StoreHarness) -> None:
    store.seed(*pages("a", 10))
    taken = store.lease(1, free=2).jobs
    assert store.rung() == {1}, "more could be leased"
    store.now += 1
    result = store.commit(*map(store.done, taken), free=2)
    assert len(result.leased) == 2
    assert result.ring == (1,)
    assert store.db.all("SELECT rung_at FROM sequences") == [(store.now,)]


def test_children_of_the_commit_are_leased_by_it(store: StoreHarness) -> None:
    store.seed("http://a/0")
    (root,) = store.lease(1).jobs
    result = store.commit(store.done(root, links=[Page(url, depth=1) for url in pages("a", 5, first=1)]), free=3)
    assert len(result.leased) == 3
    assert result.ring == (1,), "two are left, for any node with a free slot"


def test_the_limits_of_a_lease_hold(new_store: NewStore) -> None:
    store = new_store(slots=3, policies={"a:80": HostPolicy(delay=0.0, concurrency=3, robots=False)})
    store.seed(*pages("a", 10))
    first = store.lease(1, free=3).jobs
    result = store.commit(store.done(first[0]), free=5)
    assert len(result.leased) == 1, "the host allows one more"
    assert result.ring == ()
    slow = new_store(policies={"a:80": HostPolicy(delay=0.4, concurrency=9, robots=False)})
    slow.seed(*pages("a", 10))
    booked = slow.lease(1, free=9).jobs
    assert len(booked) == 2
    result = slow.commit(*map(slow.done, booked), free=2)
    assert (result.leased, result.ring) == ((), ()), "its send time is not due"


def test_a_node_takes_its_fair_share_of_a_host_and_leaves_the_rest_to_others(new_store: NewStore) -> None:
    store = new_store(slots=24, nodes_=2, policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    store.seed(*pages("a", 60))
    first = store.lease(1, free=32).jobs
    assert len(first) == 24, "8 to send, and 16 spare ones"
    result = store.commit(*map(store.done, first[:18]), free=30, held=6, slots=12, jobs_by_host={1: 6})
    assert len(result.leased) == 6
    assert result.ring == (1,)
    assert result.left_for_others
    assert len(store.lease(1, node=store.nodes[1]).jobs) == 12
    result = store.commit(*map(store.done, first[18:]), free=30, held=6, slots=12, jobs_by_host={1: 6})
    assert len(result.leased) == 6
    assert result.ring == ()


def test_a_node_above_its_share_leaves_freed_slots_to_others(new_store: NewStore) -> None:
    store = new_store(slots=24, nodes_=4, policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    store.seed(*pages("a", 40))
    first = store.lease(1, free=32).jobs
    result = store.commit(*map(store.done, first[:18]), free=38, held=6, slots=6, jobs_by_host={1: 6})
    assert (result.leased, result.ring, result.left_for_others) == ((), (1,), True)


def test_a_host_with_a_delay_is_left_to_its_ring(new_store: NewStore) -> None:
    """Its send times would start before the commit reached the disk."""
    store = new_store(policies={"a:80": HostPolicy(delay=0.1, concurrency=8, robots=False)})
    store.seed(*pages("a", 40))
    first = store.lease(1, free=4).jobs
    store.now += 1.0
    result = store.commit(*map(store.done, first), free=4, slots=32)
    assert (result.leased, result.ring, result.left_for_others) == ((), (1,), False)


def test_of_several_groups_on_a_host_the_one_with_the_fewest_taken_jobs_comes_first(new_store: NewStore) -> None:
    store = new_store(slots=8, policies={"a:80": HostPolicy(delay=0.0, concurrency=4, robots=False)})
    store.seed(*pages("a", 20))
    store.seed(*pages("a", 20, first=50), group="other")
    held = store.lease(1, free=4).jobs
    store.lease(2, node=store.nodes[0], free=4)
    result = store.commit(store.done(held[0]), free=1, held=3)
    assert [job.group for job in result.leased] == ["other"]
    assert result.ring == (1,)


def test_an_error_of_the_lease_does_not_fail_the_results(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    store.seed(*pages("a", 6))
    taken = store.lease(1, free=2).jobs

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such request")

    monkeypatch.setattr(lease, "to_leased_job", broken)
    result = store.commit(*map(store.done, taken), free=2)
    assert len(result.accepted_ids) == 2
    assert result.leased == ()
    assert store.db.one("SELECT taken, done, ready FROM sequences WHERE id = 1") == (0, 2, 4)
    assert store.rung() == {1}


def test_a_write_of_the_lease_that_the_server_refuses_does_not_fail_the_results(shared_store: StoreHarness) -> None:
    """Its statements may reach the server with the end of the commit."""
    store = shared_store
    store.seed(*pages("a", 6))
    taken = store.lease(1, free=2).jobs
    schema, run = store.db.schema, store.db.run_native  # type: ignore[attr-defined]
    when = f"BEFORE UPDATE ON {schema}.jobs FOR EACH ROW WHEN (NEW.state = 'TAKEN')"
    run(f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$")
    try:
        run(f"CREATE TRIGGER refuse {when} EXECUTE FUNCTION {schema}.refuse()")
        result = store.commit(*map(store.done, taken), free=2)
    finally:
        run(f"DROP FUNCTION {schema}.refuse() CASCADE")  # other tests get the tables
    assert (len(result.accepted_ids), result.leased) == (2, ())
    assert [state for _, state in store.jobs()].count("DONE") == 2


def test_a_single_node_may_use_the_whole_host(new_store: NewStore) -> None:
    store = new_store(slots=32, policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=False)})
    store.seed(*pages("a", 40))
    first = store.lease(1, free=32).jobs
    result = store.commit(*map(store.done, first[:6]), free=30, held=2, slots=32, jobs_by_host={1: 2})
    assert len(result.leased) == 6


def test_a_suspect_is_left_to_a_node_that_holds_nothing(store: StoreHarness) -> None:
    store.seed(*pages("a", 3))
    mine = store.lease(1, free=2).jobs
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "it died", crashed=True)
    assert len(mine) == 2
    other = store.lease(1, free=1, held=1).jobs
    assert [job.url for job in other] == ["http://a/2"]
    store.seed(*pages("a", 5, first=10))
    result = store.commit(store.done(other[0]), free=5, held=1)
    assert (result.leased, result.left_for_others) == ((), True), "a node that always gets jobs would never be empty"
    (job,) = store.lease(1, free=5).jobs
    result = store.commit(store.done(job), free=5)
    assert len(result.leased) == 1, "an empty node: one suspect, and nothing else"
    assert result.leased[0].crashes == 1


def test_results_that_cannot_be_stored_free_their_slots(store: StoreHarness) -> None:
    store.seed(*pages("a", 6))
    one, two = store.lease(1, free=2).jobs
    broken = JobOutcome(job=one, state=JobState.DONE, attempts=1, effects=(Children((None,)),))  # type: ignore[arg-type]
    result = store.commit(broken, store.done(two), free=2)
    assert len(result.accepted_ids) == 2
    assert len(result.leased) == 2
    assert store.db.value("SELECT state FROM jobs WHERE id = ?", (one.id,)) == "FAILED"
