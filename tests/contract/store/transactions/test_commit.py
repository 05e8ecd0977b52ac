"""The commit: fenced by lease, all or nothing, and a job that cannot be written does not affect the others."""

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.errors import Fenced
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobState
from crawl_engine.model.node import NodeState, Role
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.rows import RejectedRecords
from crawl_engine.store.tables.run import nodes
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.commit import commit
from tests.contract.store.harness import Page, StoreHarness, again, failed, moved, table_names, unwritable

NewStore = Callable[..., StoreHarness]


# Fences.


def test_a_commit_writes_all_results_of_a_page(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    result = Event(5.0, "INFO", "n1", "page", "fine", job.id)
    done = store.done(job, result, data=['{"title":"A"}', '{"title":"B"}'], links=[Page("http://a/2")])
    assert store.commit(done).accepted_ids == {job.id}
    assert store.jobs() == [("http://a/1", "DONE"), ("http://a/2", "READY")]
    assert store.rows() == [(job.id, '{"title":"A"}'), (job.id, '{"title":"B"}')]
    assert store.row_counts() == {"book": (2, 0)}
    assert store.list_events() == [result]
    assert store.jobs("attempts, defs, lease") == [(1, 1, None), (0, None, None)]
    store.check_counters()


def test_a_result_under_a_lease_that_was_lost_changes_nothing(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (old,) = store.take("http://a/")
    with store.db.transaction():
        assert jobs.release(store.db, store.nodes[0], "it hung", crashed=True) == 1
    (new,) = store.take("http://a/")
    assert new.lease != old.lease
    for late in (
        store.done(old, RejectedRecords("book", 3), data=["{}"], links=[Page("http://z/1")]),
        failed(old),
        again(old, 2000.0),
        JobOutcome(job=old, state=JobState.INCOMPLETE, reason="cut off"),
        JobOutcome(job=old, state=JobState.READY, effects=(Backoff(5000.0),)),
    ):
        before = _all_tables(store)
        assert store.commit(late).accepted_ids == frozenset()
        assert _all_tables(store) == before
    assert store.commit(store.done(new, data=['{"title":"new"}'])).accepted_ids == {new.id}
    assert store.rows() == [(new.id, '{"title":"new"}')]


def _all_tables(store: StoreHarness) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(store.db.all(f"SELECT * FROM {name}"), key=repr) for name in table_names(store.db)}


def test_the_same_result_committed_twice_counts_once(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    done = store.done(job, data=["{}"])
    assert [len(store.commit(done).accepted_ids) for _ in range(2)] == [1, 0]
    assert len(store.rows()) == 1


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("new", "new"), ("old", "old")])
def test_of_two_results_of_one_job_in_a_group_only_the_one_with_the_valid_lease_counts(
    store: StoreHarness, order: tuple[str, str]
) -> None:
    store.seed("http://a/1", "http://a/2")
    old, other = store.take("http://a/")
    with store.db.transaction():
        store.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (old.id,))
    (new,) = store.take("http://a/")
    results = {
        "old": store.done(old, data=['"old"'], links=[Page("http://a/old")]),
        "new": store.done(new, data=['"new"'], links=[Page("http://a/new")]),
    }
    result = store.commit(results[order[0]], store.done(other, data=['"other"']), results[order[1]])
    won = "new" in order
    assert result.accepted_ids == ({new.id, other.id} if won else {other.id})
    assert sorted(data for _, data in store.rows()) == (['"new"', '"other"'] if won else ['"other"'])
    assert [url for url, _ in store.jobs()[2:]] == (["http://a/new"] if won else [])


def test_a_failure_of_the_first_attempt_is_not_held_against_the_second(store: StoreHarness) -> None:
    """Same node, same job: only the lease differs."""
    store.seed("http://a/1")
    (first,) = store.take("http://a/")
    store.commit(again(first))
    (second,) = store.take("http://a/")
    assert store.commit(failed(first)).accepted_ids == frozenset()
    assert store.state(second.id) == "TAKEN"


@pytest.mark.parametrize("state", ["DEAD", "FAILED", "TERMINATED", "SHUTDOWN"])
def test_a_node_whose_epoch_is_over_writes_nothing(store: StoreHarness, state: str) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    with store.db.transaction():
        store.db.execute("UPDATE nodes SET state = ?", (state,))
    before = _all_tables(store)
    with pytest.raises(Fenced, match="is over"):
        store.commit(store.done(job, data=["{}"], links=[Page("http://new/1")]))
    assert _all_tables(store) == before


@pytest.mark.parametrize("state", ["STARTING", "READY", "DONE", "STANDBY", "DRAINING"])
def test_a_live_node_may_write(store: StoreHarness, state: str) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    with store.db.transaction():
        store.db.execute("UPDATE nodes SET state = ?", (state,))
    assert store.commit(store.done(job)).accepted_ids == {job.id}


def test_in_a_mixed_group_only_results_with_a_valid_lease_count(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = store.take("http://a/")
    with store.db.transaction():
        store.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (two.id,))
    group = [store.done(j, data=[f'"{j.id}"'], links=[Page(f"{j.url}/next")]) for j in (one, two, three)]
    assert store.commit(*group).accepted_ids == {one.id, three.id}
    assert store.rows() == [(one.id, f'"{one.id}"'), (three.id, f'"{three.id}"')]
    assert {url for url, _ in store.jobs()} >= {"http://a/1/next", "http://a/3/next"}
    assert ("http://a/2/next", "READY") not in store.jobs()
    store.check_counters()


def test_release_names_the_reason_and_counts_crashes_where_there_was_one(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    store.take("http://a/")
    for crashed, crashes in ((True, 1), (False, 1), (True, 2)):
        with store.db.transaction():
            assert jobs.release(store.db, store.nodes[0], "n1 died", crashed=crashed) == 2
        assert store.jobs("crashes, reason, lease, attempts") == [(crashes, "n1 died", None, 0)] * 2
        while store.take("http://a/"):
            pass
    store.check_counters()


def test_a_suspect_is_leased_alone_and_fails_after_three_node_deaths(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    (suspect,) = store.take("http://a/", free=1)
    for crashes in (1, 2):
        with store.db.transaction():
            assert jobs.release(store.db, store.nodes[0], "n1 died", crashed=True) == 1
        assert store.state(suspect.id) == "READY"
        innocents = store.lease(1, held=1).jobs
        assert suspect.id not in {job.id for job in innocents}, "a node that holds other jobs does not get it"
        with store.db.transaction():
            jobs.release(store.db, store.nodes[0], "drained", crashed=False)
        (alone,) = store.lease(1).jobs
        assert (alone.id, alone.crashes) == (suspect.id, crashes)
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "n1 died", crashed=True)
    assert store.state(suspect.id) == "FAILED"
    assert len(store.take("http://a/")) == 2
    store.check_counters()


def test_release_leaves_the_jobs_of_other_nodes_unchanged(new_store: NewStore) -> None:
    store = new_store(nodes_=2)
    store.seed("http://a/1", "http://a/2")
    (mine,) = store.take("http://a/", node=store.nodes[0], free=1)
    (other,) = store.take("http://a/", node=store.nodes[1], free=1)
    with store.db.transaction():
        assert jobs.release(store.db, store.nodes[0], "x", crashed=True) == 1
    assert (store.state(mine.id), store.state(other.id)) == ("READY", "TAKEN")


# Outcomes.


def test_a_redirect_moves_the_job_to_the_sequence_of_the_target_host(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    result = store.commit(moved(job, "http://b/2"))
    b = store.sequence("http://b/2")
    assert result.ring == (b,)
    assert [c["ready"] for c in store.stored_counters().values()] == [0, 1]
    (there,) = store.take("http://b/")
    assert (there.id, there.url, there.target, there.hops, there.attempts) == (job.id, "http://a/1", "http://b/2", 1, 0)
    store.check_counters()


def test_a_retry_keeps_its_target_and_its_document_and_adds_its_attempt(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(replace(again(job), target="http://a/2", hops=1, page=7))
    (job,) = store.take("http://a/")
    assert (job.attempts, job.target, job.hops) == (1, "http://a/2", 1)
    store.commit(replace(store.done(job), hops=1, target="http://a/2"))
    assert store.jobs("attempts, document, target") == [(2, 7, "http://a/2")]


def test_the_reason_of_a_failure_is_kept_and_errors_are_counted_by_host(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(failed(one, "HTTP 500"), again(two, 1100.0))
    assert store.jobs("state, reason") == [("FAILED", "HTTP 500"), ("READY", "timeout")]
    assert store.db.value("SELECT errors FROM hosts") == 2


def test_rejected_records_are_counted_by_data_def(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(
        store.done(one, RejectedRecords("book", 2), RejectedRecords("other", 1), data=["{}"]),
        store.done(two, data=["{}"]),
    )
    assert store.row_counts() == {"book": (2, 2), "other": (0, 1)}


# A database that cannot be written.


def test_a_locked_database_keeps_the_group_for_a_retry(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    hurried = connect(store.folder / CRAWL, durable=False, busy_seconds=0.05)
    done = store.done(job, data=["{}"], links=[Page("http://b/1")])
    before = _all_tables(store)
    with store.db.transaction(), pytest.raises(DatabaseBusy, match="lock"):
        commit(hurried, store.nodes[0], store.run, [done], store.places, store.now)
    assert _all_tables(store) == before
    assert commit(hurried, store.nodes[0], store.run, [done], store.places, store.now).accepted_ids == {job.id}
    hurried.close()
    assert len(store.jobs()) == 2


@pytest.mark.sqlite
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("free_pages", [1, 5, 40])
def test_a_full_disk_keeps_the_group_and_fails_nothing(store: StoreHarness, apart: bool, free_pages: int) -> None:
    """Even beside a job that cannot be written: a full disk means retry, not failure."""
    store.seed("http://a/1", "http://a/2")
    one, bad = store.take("http://a/")
    large = store.done(one, data=['"' + "x" * 1_000_000 + '"'], links=[Page(f"http://b/{i}") for i in range(200)])
    group = [unwritable(store, bad, "row"), large] if apart else [large]
    before = _all_tables(store)
    full = int(store.db.value("PRAGMA page_count")) + free_pages
    store.db.execute("PRAGMA cache_size = 10")
    store.db.execute(f"PRAGMA max_page_count = {full}")
    with pytest.raises(DatabaseBusy, match="full"):
        store.commit(*group)
    assert _all_tables(store) == before
    store.db.execute("PRAGMA max_page_count = 1000000")
    assert one.id in store.commit(*group).accepted_ids
    assert store.state(one.id) == "DONE"
    assert store.state(bad.id) == ("FAILED" if apart else "TAKEN")
    assert len(store.rows()) == 1
    store.check_counters()


def test_a_commit_waits_for_another_writer(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    other = connect(store.folder / CRAWL, durable=False)
    writing = other.transaction()
    writing.__enter__()
    timer = threading.Timer(0.2, lambda: writing.__exit__(None, None, None))
    timer.start()
    assert store.commit(store.done(job)).accepted_ids == {job.id}
    timer.join()
    other.close()


def test_a_run_is_open_while_any_job_is(store: StoreHarness) -> None:
    store.seed("http://a/1")
    assert jobs.has_open_jobs(store.db, store.run)
    (job,) = store.take("http://a/")
    assert jobs.has_open_jobs(store.db, store.run)
    store.commit(again(job, 1005.0))
    assert jobs.has_open_jobs(store.db, store.run), "a delayed job is open"
    with store.db.transaction():
        jobs.promote(store.db, store.run, 1005.0)
    (job,) = store.take("http://a/")
    store.commit(JobOutcome(job=job, state=JobState.INCOMPLETE, reason="cancelled"))
    assert jobs.has_open_jobs(store.db, store.run), "it will be resumed"
    with store.db.transaction():
        jobs.resume_incomplete(store.db, store.run)
    store.finish_all("http://a/")
    assert not jobs.has_open_jobs(store.db, store.run)
    assert not jobs.has_open_jobs(store.db, store.run + 1)


def test_an_open_robots_job_keeps_the_run_open_too(store: StoreHarness) -> None:
    store.places = store.new_places({"a:80": HostPolicy(0.0, 8, True)})
    store.place("http://a/")
    assert jobs.has_open_jobs(store.db, store.run)
    assert sequences.count(store.db, store.run, "ready") == 0, "but it is not a page"


def test_a_backup_counts_as_a_runner_once_it_is_one(store: StoreHarness) -> None:
    one, two = store.node(Role.BACKUP_RUNNER), store.node(Role.BACKUP_RUNNER)
    with store.db.transaction():
        nodes.set_state(store.db, one, NodeState.DEAD)
    assert nodes.count_runners(store.db, store.run) == 1
    with store.db.transaction():
        nodes.set_role(store.db, two, Role.RUNNER)
    assert nodes.count_runners(store.db, store.run) == 2


@pytest.mark.parametrize(("state", "robots"), [("INCOMPLETE", "WANTED"), ("READY", "WANTED"), ("FAILED", "KNOWN")])
def test_an_interrupted_robots_job_does_not_open_its_host(store: StoreHarness, state: str, robots: str) -> None:
    store.places = store.new_places({"a:80": HostPolicy(0.0, 8, True)})
    store.place("http://a/1")
    [(sequence,)] = store.db.all("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = store.lease(sequence).jobs
    store.commit(JobOutcome(job=job, state=JobState(state), reason="cut off" if state != "READY" else None))
    assert store.db.value("SELECT robots FROM hosts") == robots


def test_suspects_are_read_from_their_index(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{n}" for n in range(5)])
    plans = store.plans(lambda: store.lease(1, held=0))
    suspects = [plan for sql, plan in plans if "crashes > 0" in sql]
    assert suspects
    assert all(any("jobs_suspect" in line for line in plan) for plan in suspects)


def test_the_id_of_a_deleted_job_is_never_reused(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    with store.db.transaction():
        store.db.execute("DELETE FROM jobs WHERE id = 2")
    store.seed("http://a/3")
    assert [id_ for (id_,) in store.jobs("id")] == [1, 3]
