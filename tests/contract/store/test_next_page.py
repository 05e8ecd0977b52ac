"""The page that a finished one leads to is created and leased before the commit of that one."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from engine.errors import Fenced
from engine.model.job import LeasedJob
from engine.model.node import NodeState
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL
from engine.store.tables import jobs, nodes, sequences, versions
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.next_page import NextPageLease, lease_next_page
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.harness import DEFS, Page, StoreHarness


def advance(store: StoreHarness, outcome: JobOutcome, *, held: int = 1, free: int = 8) -> NextPageLease | None:
    return lease_next_page(
        store.db, store.run, outcome, store.places, store.now, store.lease_request(free=free, held=held)
    )


@pytest.fixture
def job(store: StoreHarness) -> LeasedJob:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    return job


def test_a_series_is_leased_page_by_page_and_committed_at_once(store: StoreHarness, job: LeasedJob) -> None:
    outcomes = []
    for number in range(2, 7):
        outcome = store.done(job, data=["{}"], links=[Page(f"http://a/{number}")])
        result = advance(store, outcome, held=len(outcomes) + 1)
        assert result is not None
        assert result.ring == ()
        (job,) = result.leased
        assert job.url == f"http://a/{number}"
        outcome.children = ()
        outcomes.append(outcome)
    assert store.jobs() == [(f"http://a/{number}", "TAKEN") for number in range(1, 7)]
    assert store.rows() == []
    outcomes.append(store.done(job, data=["{}"]))
    assert store.commit(*outcomes).accepted_ids == {outcome.job.id for outcome in outcomes}
    assert store.jobs() == [(f"http://a/{number}", "DONE") for number in range(1, 7)]
    assert [parent for (parent,) in store.jobs("parent")] == [None, *(outcome.job.id for outcome in outcomes[:-1])]
    assert len(store.rows()) == 6
    store.check_counters()
    store.check_sums()


def test_the_commit_of_a_page_whose_children_were_not_dropped_creates_no_second_job(
    store: StoreHarness, job: LeasedJob
) -> None:
    outcome = store.done(job, links=[Page("http://a/2")])
    advance(store, outcome)
    assert store.commit(outcome).accepted_ids == {job.id}
    assert store.jobs() == [("http://a/1", "DONE"), ("http://a/2", "TAKEN")]
    store.check_counters()


def test_after_the_death_of_the_node_both_pages_are_worked_once_more(store: StoreHarness, job: LeasedJob) -> None:
    outcome = store.done(job, data=["{}"], links=[Page("http://a/2")])
    result = advance(store, outcome)
    assert result is not None
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "died", crashed=False)
        sequences.recount_taken(store.db, store.run)
        sequences.ring_all(store.db, store.run, store.now)
    late = store.commit(outcome, store.done(result.leased[0], data=["{}"]))
    assert late.accepted_ids == frozenset()
    assert store.rows() == []
    again = store.take("http://a/")
    assert [one.url for one in again] == ["http://a/1", "http://a/2"]
    store.commit(store.done(again[0], data=["{}"], links=[Page("http://a/2")]), store.done(again[1], data=["{}"]))
    assert store.jobs() == [("http://a/1", "DONE"), ("http://a/2", "DONE")]
    assert len(store.rows()) == 2
    store.check_counters()


def test_without_a_valid_lease_nothing_is_written(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        jobs.release_all(store.db, store.run, "lost")
        sequences.recount_taken(store.db, store.run)
    assert advance(store, store.done(job, links=[Page("http://a/2")])) is None
    assert store.jobs() == [("http://a/1", "READY")]


def test_a_fenced_node_writes_nothing(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        nodes.set_state(store.db, store.nodes[0], NodeState.DEAD)
    with pytest.raises(Fenced):
        advance(store, store.done(job, links=[Page("http://a/2")]))
    assert store.jobs() == [("http://a/1", "TAKEN")]


def test_a_paused_sequence_gets_the_job_but_no_lease(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        sequences.pause(store.db, store.run, "1", True)
    result = advance(store, store.done(job, links=[Page("http://a/2")]))
    assert result == NextPageLease(leased=(), ring=(), due=None)
    assert store.jobs() == [("http://a/1", "TAKEN"), ("http://a/2", "READY")]
    store.check_counters()


def test_a_page_of_a_host_that_takes_no_more_is_left_to_a_ring(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(policies={"a:80": HostPolicy(0.0, 1, False), "b:80": HostPolicy(0.5, 8, False)})
    store.seed("http://a/1", "http://b/1")
    (job,) = store.take("http://a/")
    (slow,) = store.take("http://b/")
    result = advance(store, store.done(job, links=[Page("http://b/2")]))
    assert result is not None
    assert result.leased == ()
    assert ("http://b/2", "READY") in store.jobs()
    assert not store.done(slow, links=[Page("http://b/3")]).leads_to_one_page, "its host has a delay"


def test_a_page_of_a_group_that_the_current_defs_lack_gets_no_job(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        version = versions.publish(store.db, DEFS, 1.0)
        store.db.execute("UPDATE runs SET defs_version = ?", (version + 1,))
    outcome = store.done(job._replace(defs_version=version), links=[Page("http://a/2", "removed")])
    result = advance(store, outcome)
    assert result is not None
    assert result.leased == ()
    assert outcome.links_dropped
    assert store.jobs() == [("http://a/1", "TAKEN")]


def test_the_next_commit_is_durable_again(store: StoreHarness, job: LeasedJob) -> None:
    durable = Database.open(store.folder / CRAWL)
    full, normal = 2, 1
    for _ in range(2):
        with durable.transaction():
            assert durable.value("PRAGMA synchronous") == full
        with durable.light_transaction():
            assert durable.value("PRAGMA synchronous") == normal
        with pytest.raises(KeyError), durable.light_transaction():
            raise KeyError
    durable.close()
    with store.db.transaction():
        assert store.db.value("PRAGMA synchronous") == normal, "it was opened without"


@pytest.mark.parametrize(
    ("change", "leads"),
    [
        ({}, True),
        ({"state": "FAILED"}, False),
        ({"changed_jars": (object(),)}, False),
        ({"stored_values": {"count": "1"}}, False),
        ({"later_children": iter(())}, False),
        ({"children": ()}, False),
    ],
)
def test_what_leads_to_one_page(store: StoreHarness, job: LeasedJob, change: dict[str, object], leads: bool) -> None:
    outcome = store.done(job, links=[Page("http://a/2")])
    assert replace(outcome, **change).leads_to_one_page is leads  # type: ignore[arg-type]
