"""Machines share the hosts: one alone asks a host at a time, and the next one keeps its distance."""

from collections.abc import Callable

import pytest

from engine.model.node import Role
from engine.store.tables.run import machines, nodes
from engine.store.transactions.takeover import end_machine
from tests.contract.store.harness import HostPolicy, StoreHarness

HOSTS = tuple([f"http://h{number}" for number in range(8)])


@pytest.fixture
def shared(new_store: Callable[..., StoreHarness]) -> StoreHarness:
    """Two machines with a node each; one page of each host."""
    return _of_two_machines(new_store())


def _of_two_machines(store: StoreHarness) -> StoreHarness:
    if not store.db.is_shared:
        pytest.skip("machines share PostgreSQL alone")
    with store.db.transaction():
        second = machines.join(store.db, identity="boot:9:1", host="other", program="1", now=0.0)
        machines.set_role(store.db, second, "STANDBY", store.run)
        epoch, number = nodes.insert(store.db, store.run, second, Role.RUNNER, None, 0.0)
        assert nodes.register(store.db, epoch, "DONE", number, "boot:9:2")
    store.nodes.append(epoch)
    return store


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
