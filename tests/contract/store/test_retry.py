"""Retry: what ended is READY again as new, in bulk; its rows are taken back; a run that is ending takes nothing."""

import os
from collections.abc import Callable

import pytest

from console.filter_syntax import job_filter, parse
from engine.errors import UsageError
from engine.model.job import JobState, LeasedJob
from engine.model.job_key import document_key
from engine.model.run import RunState, Stage
from engine.runtime.process_identity import identity_of
from engine.store.pages import documents
from engine.store.read.browse import count_jobs
from engine.store.tables import outputs, rows, runs, supervisors
from engine.store.transactions import retry
from engine.store.transactions.outcome import JobOutcome
from engine.store.transactions.retry import retry as again
from tests.contract.store.house import House, Page, document, failed, moved


def end_in(house: House, state: JobState, job: LeasedJob, reason: str = "it broke") -> None:
    match state:
        case JobState.DONE:
            house.commit(house.done(job, data=[f'{{"title":"{job.id}"}}']))
        case JobState.FAILED:
            house.commit(failed(job, reason))
        case _:
            house.commit(JobOutcome(job=job, state=state, reason=reason))


def state_of_run(house: House) -> str:
    return str(runs.get(house.db, house.run).state)


def finish_run(house: House) -> None:
    with house.db.transaction():
        assert runs.set_state(house.db, house.run, RunState.DRAINING)
        assert runs.set_state(house.db, house.run, RunState.DONE)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.SKIPPED, JobState.DONE, JobState.INCOMPLETE])
def test_a_job_is_ready_again_as_new(house: House, state: JobState) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    end_in(house, state, one)
    house.commit(house.done(two))
    house.db.execute("UPDATE jobs SET crashes = 2 WHERE id = ?", (one.id,))
    expected = 2 if state is JobState.DONE else 1
    assert again(house.db, house.run, parse(f"state:{state.lower()}")) == expected
    fields = "state, attempts, crashes, hops, target, not_before, reason, lease"
    assert house.jobs(fields)[0] == ("READY", 0, 0, 0, None, None, None, None)
    house.check_counters()
    (event,) = house.db.all("SELECT source, kind, text FROM events WHERE source = 'operator'")
    assert event == ("operator", "command", f"retry: {retry.retry_message(expected)} (state:{state.lower()})")
    assert next(job.id for job in house.take("http://a/")) == one.id, "it can be leased"


def test_only_failed_jobs_without_a_state_and_only_matching_ones(house: House) -> None:
    house.seed("http://a/1", "http://a/2", "http://a/3", "http://a/4")
    one, two, three, four = house.take("http://a/")
    house.commit(failed(one, "HTTP 500"), failed(two, "timeout"), house.done(three))
    assert again(house.db, house.run, job_filter("TIME")) == 1
    assert [s for _, s in house.jobs()] == ["FAILED", "READY", "DONE", "TAKEN"]
    assert again(house.db, house.run, job_filter("nothing like it")) == 0
    assert again(house.db, house.run, parse("!state:failed")) == 0
    assert again(house.db, house.run, parse("")) == 1
    assert house.state(four.id) == "TAKEN"


@pytest.mark.parametrize("text", ["state:ready", "state:taken", "state:failed,taken", "state:delayed"])
def test_what_has_not_ended_cannot_be_retried(house: House, text: str) -> None:
    with pytest.raises(UsageError, match="cannot be retried"):
        again(house.db, house.run, parse(text))


def test_rows_of_a_done_job_are_taken_back_and_files_rebuilt(house: House) -> None:
    with house.db.transaction():
        outputs.ensure(
            house.db, house.run, appender="csv", type_="csv", data_def="book", path="/x", settings={"columns": []}
        )
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(house.done(one, data=['{"title":"a"}', '{"title":"b"}']), house.done(two, data=['{"title":"c"}']))
    (output,) = outputs.list_outputs(house.db, house.run)
    with house.db.transaction():
        outputs.advance(house.db, output.id, cursor=1, size=10, rows=1, inode=None)
    assert again(house.db, house.run, job_filter("/1$", ["done"])) == 1
    assert house.rows() == [(two.id, '{"title":"c"}')]
    assert rows.counts(house.db, house.run) == {"book": (1, 0)}
    assert outputs.list_outputs(house.db, house.run)[0].dirty
    (leased,) = house.take("http://a/")
    house.commit(house.done(leased, data=['{"title":"a"}', '{"title":"b"}'], links=[Page("http://a/2")]))
    assert rows.counts(house.db, house.run) == {"book": (3, 0)}
    assert len(house.jobs()) == 2


def test_what_it_fetched_is_fetched_again(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    gone = document("http://b/else", came_by=["http://a/1"])
    house.commit(JobOutcome(job=one, state=JobState.FAILED, reason="HTTP 404 (gone)", document=gone, page=1))
    house.commit(house.done(two, document=document("http://a/2"), page=2))
    keys = [document_key(u) for u in ("http://a/1", "http://b/else", "http://a/2")]
    assert set(documents.find_stored(house.db, house.run, keys, 0.0)) == set(keys)
    assert again(house.db, house.run, parse("")) == 1
    assert set(documents.find_stored(house.db, house.run, keys, 0.0)) == {keys[2]}
    assert documents.get_metadata(house.db, 1) is not None, "what it saw can still be shown"


def test_a_job_that_was_redirected_away_begins_at_its_own_host(house: House) -> None:
    house.seed("http://a/1")
    (job,) = house.take("http://a/")
    house.commit(moved(job, "http://b/1"))
    (job,) = house.take("http://b/")
    house.commit(failed(job))
    assert house.jobs("sequence") == [(house.sequence("http://b/"),)]
    assert again(house.db, house.run, parse("")) == 1
    assert house.jobs("sequence, target, hops") == [(house.sequence("http://a/"), None, 0)]
    house.check_counters()


def test_many_are_retried_in_batches(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BATCH", 3)
    house.seed(*(f"http://a/{n}" for n in range(8)))
    house.commit(*map(failed, house.take("http://a/")))
    assert again(house.db, house.run, parse("")) == 8
    assert count_jobs(house.db, house.run, parse("state:ready")) == 8
    house.check_counters()


def test_a_done_run_is_open_again(house: House) -> None:
    house.seed("http://a/1")
    house.commit(*map(failed, house.take("http://a/")))
    finish_run(house)
    assert runs.latest_unfinished(house.db) is None
    assert again(house.db, house.run, parse("nothing like it")) == 0
    assert state_of_run(house) == "DONE", "nothing to do opens nothing"
    assert again(house.db, house.run, parse("")) == 1
    assert state_of_run(house) == "READY"
    assert runs.latest_unfinished(house.db) is not None


def test_only_the_latest_run_goes_on(house: House) -> None:
    house.seed("http://a/1")
    house.commit(*map(failed, house.take("http://a/")))
    finish_run(house)
    with house.db.transaction():
        runs.create(house.db, None, 0.0)
    with pytest.raises(UsageError, match="cannot be resumed"):
        again(house.db, house.run, parse(""))
    assert (state_of_run(house), house.jobs("state")) == ("DONE", [("FAILED",)])


@pytest.fixture
def governed(house: House) -> House:
    """Two failed jobs, and a supervisor that is alive: this process."""
    house.seed("http://a/1", "http://a/2")
    house.commit(*map(failed, house.take("http://a/")))
    with house.db.transaction():
        supervisors.begin(house.db, identity_of(os.getpid()) or "", house.run, 0.0)
    return house


def put(house: House, stage: Stage, state: RunState) -> None:
    house.db.execute("UPDATE runs SET stage = ?, state = ? WHERE seq = ?", (stage, state, house.run))


_GOING = [Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING]


@pytest.mark.parametrize("stage", list(Stage))
def test_a_run_that_is_ending_takes_nothing(governed: House, stage: Stage) -> None:
    put(governed, stage, RunState.READY)
    if stage in _GOING:
        assert again(governed.db, governed.run, parse("")) == 2
        return
    with pytest.raises(UsageError, match="is ending"):
        again(governed.db, governed.run, parse(""))
    assert [s for _, s in governed.jobs()] == ["FAILED", "FAILED"]
    assert governed.db.value("SELECT count(*) FROM events WHERE source = 'operator'") == 0


def test_a_run_that_has_decided_to_end_takes_nothing(governed: House) -> None:
    put(governed, Stage.RUNNING, RunState.DRAINING)
    with pytest.raises(UsageError, match="is ending"):
        again(governed.db, governed.run, parse(""))
    assert [s for _, s in governed.jobs()] == ["FAILED", "FAILED"]


@pytest.mark.parametrize("identity", ["boot:1:1", "", "nonsense"])
def test_a_supervisor_that_died_while_ending_is_in_nobodys_way(governed: House, identity: str) -> None:
    put(governed, Stage.STOPPING_NODES_GRACEFUL, RunState.DRAINING)
    governed.db.execute("UPDATE supervisors SET identity = ? WHERE ended_at IS NULL", (identity,))
    assert again(governed.db, governed.run, parse("")) == 2
    assert state_of_run(governed) == "READY"


def test_an_end_between_two_batches_is_told(governed: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BATCH", 1)
    put(governed, Stage.RUNNING, RunState.READY)
    batches = retry._retry_batch

    def then_it_ends(*asked: object) -> int:
        told = batches(*asked)  # type: ignore[arg-type]
        put(governed, Stage.CRAWL_COMPLETE, RunState.DRAINING)
        return told

    monkeypatch.setattr(retry, "_retry_batch", then_it_ends)
    with pytest.raises(UsageError, match=r"1 job is READY again; then run .* is ending"):
        again(governed.db, governed.run, parse(""))
    assert sorted(s for _, s in governed.jobs()) == ["FAILED", "READY"]


def test_the_end_of_a_run_and_a_retry_exclude_each_other(houses: Callable[..., House]) -> None:
    """Whichever transaction comes first, the run is not DONE with a job that is READY."""
    from engine.store.tables import jobs

    for first in ("end", "retry"):
        house = houses()
        house.seed("http://a/1")
        house.commit(*map(failed, house.take("http://a/")))
        with house.db.transaction():
            supervisors.begin(house.db, identity_of(os.getpid()) or "", house.run, 0.0)
        put(house, Stage.RUNNING, RunState.READY)
        if first == "retry":
            assert again(house.db, house.run, parse("")) == 1
        with house.db.transaction():
            ended = not jobs.has_open_jobs(house.db, house.run) and runs.set_state(
                house.db, house.run, RunState.DRAINING
            )
        assert ended is (first == "end")
        if first == "end":
            with pytest.raises(UsageError):
                again(house.db, house.run, parse(""))


def test_what_was_turned_away_counts_once_however_often_its_page_is_done(house: House) -> None:
    house.seed("http://a/1", "http://a/2")
    one, two = house.take("http://a/")
    house.commit(house.done(one, rejected=(("book", 3),)), house.done(two, rejected=(("book", 1),)))
    for left in (2, 5):
        assert again(house.db, house.run, parse("state:done a/1")) == 1
        assert rows.counts(house.db, house.run)["book"] == (0, 1)
        (one,) = house.take("http://a/")
        house.commit(house.done(one, rejected=(("book", left),)))
        assert rows.counts(house.db, house.run)["book"] == (0, 1 + left)
