"""Takeover: what a dead node held is requeued by index, and reported where a limit counts it."""

from collections.abc import Callable

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.node import Role
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.run import nodes, supervisors
from crawl_engine.store.transactions.takeover import requeue_jobs
from tests.contract.store.harness import StoreHarness

NewStore = Callable[..., StoreHarness]


def requeue(store: StoreHarness) -> list[str]:
    """Requeue the jobs of the node; the texts of the warnings."""
    with store.db.transaction():
        requeue_jobs(store.db, store.run, store.nodes[0], "n1 died", crashed=True)
    return [event.text for event in store.list_events() if event.level == "WARNING"]


def test_failed_jobs_are_found_by_sequence(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=True)})
    store.seed("http://a/1")
    for work in (
        lambda: hosts.abandon_robots(store.db, store.run),
        lambda: jobs.requeue_skipped(store.db, 1, 9),
    ):
        for statement, plan in store.plans(work):
            failed = [line for line in plan if "jobs_failed" in line]
            assert failed, (statement, plan)
            assert all("jobs_failed_of (sequence=?)" in line for line in failed), (statement, plan)
            assert not any(line.startswith(("SCAN j", "SCAN jobs")) for line in plan), (statement, plan)


def test_both_kinds_of_ended_jobs_are_requeued_up_to_the_limit(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{n}" for n in range(6)])
    ends = ["SKIPPED limit", "SKIPPED robots", "SKIPPED no-page", "FAILED robots", "FAILED limit", "FAILED no-page"]
    with store.db.transaction():
        for number, (state, code) in enumerate((end.split(" ", 1) for end in ends), 1):
            store.db.execute("UPDATE jobs SET state = ?, reason_code = ? WHERE id = ?", (state, code, number))
        assert jobs.requeue_skipped(store.db, 1, 2) == 2
        assert jobs.requeue_skipped(store.db, 1, 2) == 1
    assert [store.state(job) for job in (1, 2, 3, 4, 5, 6)] == [
        "READY",
        "READY",
        "SKIPPED",
        "READY",
        "FAILED",
        "FAILED",
    ]
    store.check_counters()


@pytest.mark.parametrize("limit", ["group", "run"])
def test_requests_that_may_be_lost_to_a_limit_are_told(new_store: NewStore, limit: str) -> None:
    store = new_store(max_pages={"g": 5} if limit == "group" else {})
    store.seed(*[f"http://a/{n}" for n in range(9)])
    if limit == "run":
        store.limit("run", "", 5)
    assert len(store.lease(1, free=3).jobs) == 3
    assert requeue(store) == ["n1 died; the page limits count 3 requests that it may not have sent"]
    assert sequences.count(store.db, store.run, "taken", kind=None) == 0
    assert len(store.lease(1, node=store.node()).jobs) == 1, "suspects are leased alone"
    store.check_counters()


def test_nothing_is_told_where_no_limit_applies_or_nothing_was_held(new_store: NewStore) -> None:
    store = new_store()
    store.seed("http://a/1")
    assert len(store.lease(1).jobs) == 1
    assert requeue(store) == []
    limited = new_store(max_pages={"g": 5})
    limited.seed("http://a/1")
    assert requeue(limited) == []


def test_what_a_replaced_supervisor_still_starts_is_not_waited_for(store: StoreHarness) -> None:
    assert nodes.has_live(store.db)
    with store.db.transaction():
        supervisors.begin(store.db, "boot:9:9", store.run, 1.0)
        nodes.insert(store.db, store.run, store.supervisor, Role.RUNNER, None, 2.0)
    assert not nodes.has_live(store.db)
