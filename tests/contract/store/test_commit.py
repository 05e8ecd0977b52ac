"""The commit: fenced job by job, all or nothing, and one job that cannot be written never harms the others."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.errors import Fenced
from engine.model.job import JobState
from engine.model.node import NodeState, Role
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from engine.store.tables import jobs, nodes, rows, sequences
from engine.store.tables.events import Event
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.commit import commit
from engine.store.transactions.outcome import JobOutcome
from tests.contract.store.house import House, Page, again, failed, moved, unwritable

Houses = Callable[..., House]


# Fences.


def test_a_commit_writes_all_that_a_page_made(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = Event(5.0, "INFO", "n1", "page", "fine", job.id)
    done = house.done(job, data=['{"title":"A"}', '{"title":"B"}'], links=[Page("http://a/2")], events=(told,))
    assert house.commit(done).accepted_ids == {job.id}
    assert house.jobs() == [("http://a/1", "DONE"), ("http://a/2", "READY")]
    assert house.rows() == [(job.id, '{"title":"A"}'), (job.id, '{"title":"B"}')]
    assert rows.counts(house.db, house.run) == {"book": (2, 0)}
    assert house.told() == [told]
    assert house.jobs("attempts, defs, lease") == [(1, 1, None), (0, None, None)]
    house.check_counters()


def test_a_result_under_a_lease_that_was_lost_changes_nothing(house: House) -> None:
    house.seed("http://a/1")
    (old,) = house.take("http://a/")
    with house.db.transaction():
        assert jobs.release(house.db, house.nodes[0], "it hung", crashed=True) == 1
    (new,) = house.take("http://a/")
    assert new.lease != old.lease
    for late in (
        house.done(old, data=["{}"], links=[Page("http://z/1")], rejected=(("book", 3),)),
        failed(old),
        again(old, 2000.0),
        JobOutcome(job=old, state=JobState.INCOMPLETE, reason="cut off"),
        JobOutcome(job=old, state=JobState.READY, backoff_until=5000.0),
    ):
        before = _all_tables(house)
        assert house.commit(late).accepted_ids == frozenset()
        assert _all_tables(house) == before
    assert house.commit(house.done(new, data=['{"title":"new"}'])).accepted_ids == {new.id}
    assert house.rows() == [(new.id, '{"title":"new"}')]


def _all_tables(house: House) -> dict[str, list[tuple[object, ...]]]:
    names = [row[0] for row in house.db.all("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: house.db.all(f"SELECT * FROM {name}") for name in names}


def test_the_same_result_committed_twice_counts_once(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    done = house.done(job, data=["{}"])
    assert [len(house.commit(done).accepted_ids) for _ in range(2)] == [1, 0]
    assert len(house.rows()) == 1


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("new", "new"), ("old", "old")])
def test_of_two_results_of_one_job_in_a_group_only_the_one_whose_lease_holds_counts(
    house: House, order: tuple[str, str]
) -> None:
    house.seed("http://a/1", "http://a/2")
    old, other = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (old.id,))
    (new,) = house.take("http://a/")
    results = {
        "old": house.done(old, data=['"old"'], links=[Page("http://a/old")]),
        "new": house.done(new, data=['"new"'], links=[Page("http://a/new")]),
    }
    told = house.commit(results[order[0]], house.done(other, data=['"other"']), results[order[1]])
    won = "new" in order
    assert told.accepted_ids == ({new.id, other.id} if won else {other.id})
    assert sorted(data for _, data in house.rows()) == (['"new"', '"other"'] if won else ['"other"'])
    assert [url for url, _ in house.jobs()[2:]] == (["http://a/new"] if won else [])


def test_a_failure_of_the_first_attempt_is_not_held_against_the_second(house: House) -> None:
    """The same node, the same job: only the lease tells them apart."""
    house.seed("http://a/1")
    (first,) = house.take("http://a/")
    house.commit(again(first))
    (second,) = house.take("http://a/")
    assert house.commit(failed(first)).accepted_ids == frozenset()
    assert house.state(second.id) == "TAKEN"


@pytest.mark.parametrize("state", ["DEAD", "FAILED", "TERMINATED", "SHUTDOWN"])
def test_a_node_whose_epoch_is_over_writes_nothing(house: House, state: str) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE nodes SET state = ?", (state,))
    before = _all_tables(house)
    with pytest.raises(Fenced, match="is over"):
        house.commit(house.done(job, data=["{}"], links=[Page("http://new/1")]))
    assert _all_tables(house) == before


@pytest.mark.parametrize("state", ["STARTING", "READY", "DONE", "STANDBY", "DRAINING"])
def test_a_living_node_may_write(house: House, state: str) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE nodes SET state = ?", (state,))
    assert house.commit(house.done(job)).accepted_ids == {job.id}


def test_in_a_mixed_group_only_results_whose_lease_holds_count(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = house.take("http://a/")
    with house.db.transaction():
        house.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (two.id,))
    group = [house.done(j, data=[f'"{j.id}"'], links=[Page(f"{j.url}/next")]) for j in (one, two, three)]
    assert house.commit(*group).accepted_ids == {one.id, three.id}
    assert house.rows() == [(one.id, f'"{one.id}"'), (three.id, f'"{three.id}"')]
    assert {url for url, _ in house.jobs()} >= {"http://a/1/next", "http://a/3/next"}
    assert ("http://a/2/next", "READY") not in house.jobs()
    house.check_counters()


def test_release_names_the_reason_and_counts_crashes_where_there_was_one(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    house.take("http://a/")
    for crashed, crashes in ((True, 1), (False, 1), (True, 2)):
        with house.db.transaction():
            assert jobs.release(house.db, house.nodes[0], "n1 died", crashed=crashed) == 2
        assert house.jobs("crashes, reason, lease, attempts") == [(crashes, "n1 died", None, 0)] * 2
        while house.take("http://a/"):
            pass
    house.check_counters()


def test_a_job_in_whose_hands_a_node_died_is_given_alone_and_given_up_after_three_deaths(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3")
    (suspect,) = house.take("http://a/", free=1)
    for crashes in (1, 2):
        with house.db.transaction():
            assert jobs.release(house.db, house.nodes[0], "n1 died", crashed=True) == 1
        assert house.state(suspect.id) == "READY"
        innocents = house.lease(1, held=1).jobs
        assert suspect.id not in {job.id for job in innocents}, "a node that holds others does not get it"
        with house.db.transaction():
            jobs.release(house.db, house.nodes[0], "drained", crashed=False)
        (alone,) = house.lease(1).jobs
        assert (alone.id, alone.crashes) == (suspect.id, crashes)
    with house.db.transaction():
        jobs.release(house.db, house.nodes[0], "n1 died", crashed=True)
    assert house.state(suspect.id) == "FAILED"
    assert len(house.take("http://a/")) == 2
    house.check_counters()


def test_release_leaves_the_jobs_of_others_alone(houses: Houses) -> None:
    house = houses(nodes_=2)
    house.seed("http://a/1", "http://a/2")
    (mine,) = house.take("http://a/", node=house.nodes[0], free=1)
    (other,) = house.take("http://a/", node=house.nodes[1], free=1)
    with house.db.transaction():
        assert jobs.release(house.db, house.nodes[0], "x", crashed=True) == 1
    assert (house.state(mine.id), house.state(other.id)) == ("READY", "TAKEN")


# Verdicts.


def test_a_redirect_moves_the_job_under_the_target_hosts_clock(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    told = house.commit(moved(job, "http://b/2"))
    b = house.sequence("http://b/2")
    assert told.ring == (b,)
    assert [c["ready"] for c in house.counted().values()] == [0, 1]
    (there,) = house.take("http://b/")
    assert (there.id, there.url, there.target, there.hops, there.attempts) == (job.id, "http://a/1", "http://b/2", 1, 0)
    house.check_counters()


def test_a_retry_keeps_its_target_and_its_document_and_adds_its_attempt(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    house.commit(replace(again(job), target="http://a/2", hops=1, page=7))
    (job,) = house.take("http://a/")
    assert (job.attempts, job.target, job.hops) == (1, "http://a/2", 1)
    house.commit(replace(house.done(job), hops=1, target="http://a/2"))
    assert house.jobs("attempts, document, target") == [(2, 7, "http://a/2")]


def test_the_reason_of_a_failure_is_kept_and_errors_are_counted_by_host(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(failed(one, "HTTP 500"), again(two, 1100.0))
    assert house.jobs("state, reason") == [("FAILED", "HTTP 500"), ("READY", "timeout")]
    assert house.db.value("SELECT errors FROM hosts") == 2


def test_turned_away_records_are_counted_by_data_def(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(house.done(one, data=["{}"], rejected=(("book", 2), ("other", 1))), house.done(two, data=["{}"]))
    assert rows.counts(house.db, house.run) == {"book": (2, 2), "other": (0, 1)}


# A database that cannot be written now.


def test_a_locked_database_keeps_the_group_for_another_try(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    hurried = Database.open(house.folder / CRAWL, durable=False, busy_seconds=0.05)
    done = house.done(job, data=["{}"], links=[Page("http://b/1")])
    before = _all_tables(house)
    with house.db.transaction(), pytest.raises(DatabaseBusy, match="locked"):
        commit(hurried, house.nodes[0], house.run, [done], house.places, house.now)
    assert _all_tables(house) == before
    assert commit(hurried, house.nodes[0], house.run, [done], house.places, house.now).accepted_ids == {job.id}
    hurried.close()
    assert len(house.jobs()) == 2


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("room", [1, 5, 40])
def test_a_full_disk_keeps_the_group_and_fails_nothing(house: House, apart: bool, room: int) -> None:
    """A job that cannot be written beside it does not change that: full means try again, not failed."""
    house.seed("http://a/1", "http://a/2")
    one, bad = house.take("http://a/")
    large = house.done(one, data=['"' + "x" * 1_000_000 + '"'], links=[Page(f"http://b/{i}") for i in range(200)])
    group = [unwritable(house, bad, "row"), large] if apart else [large]
    before = _all_tables(house)
    full = int(house.db.value("PRAGMA page_count")) + room
    house.db.execute("PRAGMA cache_size = 10")
    house.db.execute(f"PRAGMA max_page_count = {full}")
    with pytest.raises(DatabaseBusy, match="full"):
        house.commit(*group)
    assert _all_tables(house) == before
    house.db.execute("PRAGMA max_page_count = 1000000")
    assert one.id in house.commit(*group).accepted_ids
    assert house.state(one.id) == "DONE"
    assert house.state(bad.id) == ("FAILED" if apart else "TAKEN")
    assert len(house.rows()) == 1
    house.check_counters()


def test_a_commit_waits_for_another_writer(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    other = Database.open(house.folder / CRAWL, durable=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    timer.start()
    assert house.commit(house.done(job)).accepted_ids == {job.id}
    timer.join()
    other.close()


def test_a_run_is_open_while_any_job_is(house: House) -> None:
    house.seed("http://a/1")
    assert jobs.has_open_jobs(house.db, house.run)
    (job,) = house.take("http://a/")
    assert jobs.has_open_jobs(house.db, house.run)
    house.commit(again(job, 1005.0))
    assert jobs.has_open_jobs(house.db, house.run), "waiting is open"
    with house.db.transaction():
        jobs.promote(house.db, house.run, 1005.0)
    (job,) = house.take("http://a/")
    house.commit(JobOutcome(job=job, state=JobState.INCOMPLETE, reason="cancelled"))
    assert jobs.has_open_jobs(house.db, house.run), "it is to be resumed"
    with house.db.transaction():
        jobs.resume_incomplete(house.db, house.run)
    house.finish_all("http://a/")
    assert not jobs.has_open_jobs(house.db, house.run)
    assert not jobs.has_open_jobs(house.db, house.run + 1)


def test_an_open_robots_job_keeps_the_run_open_too(house: House) -> None:
    house.places = house.new_places({"a:80": HostPolicy(0.0, 8, True)})
    house.place("http://a/")
    assert jobs.has_open_jobs(house.db, house.run)
    assert sequences.count_pages(house.db, house.run, "ready") == 0, "but it is no page"


def test_a_backup_counts_among_the_runners_once_it_is_one(house: House) -> None:
    one, two = house.node(Role.BACKUP_RUNNER), house.node(Role.BACKUP_RUNNER)
    with house.db.transaction():
        nodes.set_state(house.db, one, NodeState.DEAD)
    assert nodes.count_runners(house.db, house.run) == 1
    with house.db.transaction():
        nodes.set_role(house.db, two, Role.RUNNER)
    assert nodes.count_runners(house.db, house.run) == 2


@pytest.mark.parametrize(("state", "known"), [("INCOMPLETE", "WANTED"), ("READY", "WANTED"), ("FAILED", "KNOWN")])
def test_a_robots_txt_that_was_cut_off_opens_no_host(house: House, state: str, known: str) -> None:
    house.places = house.new_places({"a:80": HostPolicy(0.0, 8, True)})
    house.place("http://a/1")
    [(sequence,)] = house.db.all("SELECT id FROM sequences WHERE kind = 'robots'")
    (job,) = house.lease(sequence).jobs
    house.commit(JobOutcome(job=job, state=JobState(state), reason="cut off" if state != "READY" else None))
    assert house.db.value("SELECT robots FROM hosts") == known


def test_a_suspect_is_looked_for_by_its_index(house: House) -> None:
    house.seed(*[f"http://a/{n}" for n in range(5)])
    plans = house.plans(lambda: house.lease(1, held=0))
    suspects = [plan for sql, plan in plans if "crashes > 0" in sql]
    assert suspects
    assert all(any("jobs_suspect" in line for line in plan) for plan in suspects)


def test_the_number_of_a_job_that_is_gone_is_never_given_again(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    with house.db.transaction():
        house.db.execute("DELETE FROM jobs WHERE id = 2")
    house.seed("http://a/3")
    assert [id_ for (id_,) in house.jobs("id")] == [1, 3]
