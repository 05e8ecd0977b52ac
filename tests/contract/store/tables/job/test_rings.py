"""Rings: where many sequences wait for one host, as many ring as its room is worth."""

from crawl_engine.model.host import HostPolicy
from crawl_engine.store.tables.job import rings
from tests.contract.store.harness import StoreHarness
from tests.contract.store.shop import NewStore

GROUPS = 100


def seed_groups(new_store: NewStore, concurrency: int, *, jobs: int = 1) -> StoreHarness:
    """A store with the jobs of many groups on the host `a`, none of them rung."""
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=concurrency, robots=False)})
    for group in range(GROUPS):
        store.seed(*[f"http://a/{group}/{number}" for number in range(jobs)], group=f"g{group}")
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
    return store


def ring(store: StoreHarness) -> list[int]:
    with store.db.transaction():
        return rings.ring_all(store.db, store.run, store.now)


def test_as_many_ring_as_a_host_has_room_for_and_as_many_again(new_store: NewStore) -> None:
    assert len(ring(seed_groups(new_store, 2))) == 16, "the least"
    assert len(ring(seed_groups(new_store, 20))) == 2 * 20


def test_those_with_fewer_taken_jobs_ring_first(new_store: NewStore) -> None:
    store = seed_groups(new_store, 8, jobs=2)
    taken = {store.take("http://a/", f"g{group}", free=1)[0].sequence for group in range(7)}
    for _ in range(5):
        with store.db.transaction():
            rings.clear_rings(store.db, store.run)
        assert taken.isdisjoint(ring(store))


def test_no_sequence_is_left_out(new_store: NewStore) -> None:
    store = seed_groups(new_store, 4)
    done = set[int]()
    rung = ring(store)
    while rung:
        answered = [store.lease(sequence) for sequence in rung]
        jobs = [job for got in answered for job in got.jobs]
        assert jobs, "one of those that ring gets a job"
        done.update(job.id for job in jobs)
        rung = list(store.commit(*[store.done(job) for job in jobs]).ring)
    assert len(done) == GROUPS


def test_a_host_does_not_take_the_rings_of_another(new_store: NewStore) -> None:
    store = seed_groups(new_store, 2)
    store.seed("http://b/1")
    with store.db.transaction():
        rings.clear_rings(store.db, store.run)
    assert store.sequence("http://b/1") in ring(store)
