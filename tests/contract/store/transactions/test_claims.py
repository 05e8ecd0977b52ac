"""Machines share the hosts: one alone asks a host at a time, and the next one keeps its distance."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from crawl_engine.model.job import LeasedJob
from crawl_engine.store.tables.job import rings
from crawl_engine.store.transactions.takeover import end_machine
from tests.contract.store.harness import HostPolicy, StoreHarness

HOSTS = tuple([f"http://h{number}" for number in range(8)])


@pytest.fixture
def shared(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """Two machines with a node each; one page of each host."""
    return _of_two_machines(new_store())


@pytest.fixture
def alone(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """One machine; four pages of each host."""
    store = new_store()
    if not store.db.is_shared:
        pytest.skip("machines share PostgreSQL alone")
    seed(store, *(f"{host}/{page}" for host in HOSTS for page in range(4)))
    return store


def _of_two_machines(store: StoreHarness) -> StoreHarness:
    if not store.db.is_shared:
        pytest.skip("machines share PostgreSQL alone")
    store.join_machine()
    return store


def take(store: StoreHarness, machine: int, batch: int = 32) -> list[LeasedJob]:
    return [job for got in store.lease_rung(node=store.nodes[machine], batch=batch) for job in got.jobs]


def go_on(store: StoreHarness, machine: int, jobs: Sequence[LeasedJob]) -> tuple[set[str], frozenset[int]]:
    """Commit the half of what a node holds; returns the URLs that it gets instead, and the hosts that it hands over."""
    done, held = jobs[::2], jobs[1::2]
    share = {"jobs_by_host": Counter(job.host for job in held), "slots": 64}
    result = store.commit(*map(store.done, done), node=store.nodes[machine], free=64, held=len(held), **share)
    store.commit(*map(store.done, held), node=store.nodes[machine])
    return {job.url for job in result.leased}, result.handed_over


def hosts_of(urls: set[str]) -> set[str]:
    return {url.rpartition("/")[0] for url in urls}


def seed(store: StoreHarness, *urls: str) -> None:
    with store.db.transaction():
        store.db.execute("UPDATE sequences SET rung_at = NULL")
    store.seed(*urls)


def leased(store: StoreHarness, machine: int) -> set[str]:
    """The URLs that a node of a machine gets."""
    return {job.url for got in store.lease_rung(node=store.nodes[machine]) for job in got.jobs}


def machine_of(store: StoreHarness, node: int) -> int:
    return int(store.db.value("SELECT supervisor FROM nodes WHERE epoch = ?", (store.nodes[node],)))


def test_machines_divide_the_hosts(shared: StoreHarness) -> None:
    seed(shared, *(f"{host}/1" for host in HOSTS))
    first, second = leased(shared, 0), leased(shared, 1)
    assert len(first) == len(second) == 4
    assert not first & second


def test_a_host_whose_machine_does_not_come_is_taken_after_a_second(shared: StoreHarness) -> None:
    seed(shared, *(f"{host}/1" for host in HOSTS))
    assert len(leased(shared, 0)) == 4
    shared.now += 1.1
    assert len(leased(shared, 0)) == 4


def test_a_host_belongs_to_the_machine_that_holds_a_job_of_it(shared: StoreHarness) -> None:
    seed(shared, *(f"{host}/1" for host in HOSTS))
    taken = shared.lease_rung(node=shared.nodes[0])
    jobs = [job for got in taken for job in got.jobs]
    seed(shared, *(f"{host}/2" for host in HOSTS))
    shared.now += 5
    hosts = {job.url.rpartition("/")[0] for job in jobs}
    assert leased(shared, 1) == {f"{host}/{page}" for host in HOSTS if host not in hosts for page in (1, 2)}
    shared.commit(*map(shared.done, jobs), node=shared.nodes[0])
    shared.now += 5
    assert leased(shared, 1) == {f"{host}/2" for host in hosts}, "a host that its machine left alone"


def test_who_claims_the_host_of_another_waits_for_its_delay(new_store: Callable[..., StoreHarness]) -> None:
    store = _of_two_machines(new_store(policies={"h0:80": HostPolicy(delay=3.0, concurrency=1, robots=False)}))
    seed(store, "http://h0/1", "http://h0/2")
    store.now += 2  # so that either machine may take it
    [[job]] = [got.jobs for got in store.lease_rung(node=store.nodes[0], batch=1) if got.jobs]
    store.commit(store.done(job), node=store.nodes[0])
    store.now += 4.5
    with store.db.transaction():
        store.db.execute("UPDATE sequences SET rung_at = ?", (store.now - 2,))
    [got] = store.lease_rung(node=store.nodes[1])
    assert not got.jobs
    assert got.due == pytest.approx(store.now + 3.0, abs=0.2)


@pytest.mark.parametrize("delay", [0.0, 2.0])
def test_the_hosts_of_a_machine_that_ended_are_free_after_their_delay(
    new_store: Callable[..., StoreHarness], *, delay: float
) -> None:
    policy = {"h0:80": HostPolicy(delay=delay, concurrency=1, robots=False)}
    store = _of_two_machines(new_store(policies=policy))
    seed(store, "http://h0/1")
    store.now += 2
    assert leased(store, 0) == {"http://h0/1"}
    ended = machine_of(store, 0)
    with store.db.transaction():
        end_machine(store.db, ended, 0.0)
    machine, next_at = store.db.one("SELECT machine, next_at FROM hosts WHERE key = 'h0:80'") or (0, 0)
    assert machine is None
    assert bool(next_at) is bool(delay)


def test_a_machine_that_joins_gets_its_share_once_the_leased_jobs_have_ended(alone: StoreHarness) -> None:
    jobs = take(alone, 0, batch=2)
    second = alone.join_machine()
    assert leased(alone, second) == set(), "the first machine holds jobs of each host"
    kept, handed_over = go_on(alone, 0, jobs)
    assert len(hosts_of(kept)) == len(handed_over) == 4
    assert hosts_of(leased(alone, second)) == {*HOSTS} - hosts_of(kept)
    assert leased(alone, 0) == set()


def test_a_machine_counts_once_its_node_is_ready(alone: StoreHarness) -> None:
    jobs = take(alone, 0, batch=2)
    alone.join_machine(is_ready=False)
    kept, handed_over = go_on(alone, 0, jobs)
    assert (len(hosts_of(kept)), handed_over) == (8, frozenset())


def test_the_hosts_of_a_machine_that_ended_are_divided_and_handed_over_when_it_joins_again(
    alone: StoreHarness,
) -> None:
    second = alone.join_machine()
    assert len(hosts_of(leased(alone, second))) == 4
    assert len(hosts_of(leased(alone, 0))) == 4
    with alone.db.transaction():
        end_machine(alone.db, machine_of(alone, second), 0.0)
        rings.ring_all(alone.db, alone.run, alone.now)
    jobs = take(alone, 0)
    assert len(hosts_of({job.url for job in jobs})) == 4
    third = alone.join_machine(10)
    seed(alone, *(f"{host}/{page}" for host in HOSTS for page in "ab"))
    _, handed_over = go_on(alone, 0, jobs)
    assert len(handed_over) == 4
    assert len(hosts_of(leased(alone, third))) == 4


def test_a_host_whose_machine_did_not_come_is_lent_for_a_while(shared: StoreHarness) -> None:
    seed(shared, *(f"{host}/{page}" for host in HOSTS for page in range(6)))
    shared.now += 1.1
    jobs = take(shared, 0, batch=2)
    kept, handed_over = go_on(shared, 0, jobs)
    assert (len(hosts_of(kept)), handed_over) == (8, frozenset())
    shared.now += 10.1
    assert leased(shared, 1) == set(), "its jobs have not ended"


def test_a_host_that_was_lent_is_given_back(shared: StoreHarness) -> None:
    seed(shared, *(f"{host}/{page}" for host in HOSTS for page in range(6)))
    shared.now += 1.1
    jobs = take(shared, 0, batch=2)
    shared.now += 10.1
    kept, handed_over = go_on(shared, 0, jobs)
    assert len(hosts_of(kept)) == len(handed_over) == 4
    assert hosts_of(leased(shared, 1)) == {*HOSTS} - hosts_of(kept)


def test_few_hosts_are_divided_too(new_store: Callable[..., StoreHarness]) -> None:
    store = _of_two_machines(new_store())
    seed(store, "http://h0/1")
    store.seed("http://h0/2", "http://h1/1", group="other")
    assert {len(hosts_of(leased(store, machine))) for machine in (0, 1)} == {1}


def test_hosts_with_one_limit_go_to_one_machine(new_store: Callable[..., StoreHarness]) -> None:
    """The first of them says whose they are, whatever their own numbers."""
    policies = {f"h{number}:80": HostPolicy(0.0, 2, robots=False, pool="h*") for number in range(8)}
    store = _of_two_machines(new_store(policies=policies))
    seed(store, *(f"{host}/" for host in HOSTS))
    of_machines = [take(store, machine) for machine in (0, 1)]
    assert sorted(map(bool, of_machines)) == [False, True], "one machine has them all"
    (owner,) = [machine for machine, jobs in enumerate(of_machines) if jobs]
    for _ in range(8):
        store.commit(*map(store.done, of_machines[owner]), node=store.nodes[owner])
        with store.db.transaction():
            rings.ring_all(store.db, store.run, store.now)
        assert take(store, 1 - owner) == []
        of_machines[owner] = take(store, owner)
    assert store.db.value("SELECT count(*) FROM jobs WHERE state = 'DONE'") == 8
