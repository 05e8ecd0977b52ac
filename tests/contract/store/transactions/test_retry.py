"""A retry makes ended jobs READY as new, in batches, and deletes their rows; an ending run rejects it."""

import os
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_console.filter_syntax import job_filter, parse
from crawl_engine.errors import UsageError
from crawl_engine.model.job import JobState, LeasedJob, Request, document_key
from crawl_engine.model.run import RunState, Stage
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.pages import documents
from crawl_engine.store.read.browse import count_jobs
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row.rows import RejectedRecords
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.transactions import retry
from crawl_engine.store.transactions.retry import retry as again
from tests.contract.store.harness import Page, StoreHarness, document, failed, moved


def end_in(store: StoreHarness, state: JobState, job: LeasedJob, reason: str = "it broke") -> None:
    match state:
        case JobState.DONE:
            store.commit(store.done(job, data=[f'{{"title":"{job.id}"}}']))
        case JobState.FAILED:
            store.commit(failed(job, reason))
        case _:
            store.commit(JobOutcome(job=job, state=state, reason=reason))


def state_of_run(store: StoreHarness) -> str:
    return str(runs.get(store.db, store.run).state)


def finish_run(store: StoreHarness) -> None:
    with store.db.transaction():
        assert runs.set_state(store.db, store.run, RunState.DRAINING)
        assert runs.set_state(store.db, store.run, RunState.DONE)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.SKIPPED, JobState.DONE, JobState.INCOMPLETE])
def test_a_retried_job_is_ready_as_new(store: StoreHarness, state: JobState) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    end_in(store, state, one)
    store.commit(store.done(two))
    store.db.execute("UPDATE jobs SET crashes = 2, asked_again = 1 WHERE id = ?", (one.id,))
    expected = 2 if state is JobState.DONE else 1
    assert again(store.db, store.run, parse(f"state:{state.lower()}")) == expected
    fields = "state, attempts, crashes, hops, target, not_before, reason, lease"
    assert store.jobs(fields)[0] == ("READY", 0, 0, 0, None, None, None, None)
    assert not jobs.was_asked_again(store.db, one.id)
    store.check_counters()
    (event,) = store.db.all("SELECT source, kind, text FROM events WHERE source = 'operator'")
    assert event == ("operator", "command", f"retry: {retry.retry_message(expected)} (state:{state.lower()})")
    assert next(job.id for job in store.take("http://a/")) == one.id, "it can be leased"


def test_only_failed_jobs_without_a_state_and_only_matching_ones(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3", "http://a/4")
    one, two, three, four = store.take("http://a/")
    store.commit(failed(one, "HTTP 500"), failed(two, "timeout"), store.done(three))
    assert again(store.db, store.run, job_filter("TIME")) == 1
    assert [s for _, s in store.jobs()] == ["FAILED", "READY", "DONE", "TAKEN"]
    assert again(store.db, store.run, job_filter("nothing like it")) == 0
    assert again(store.db, store.run, parse("!state:failed")) == 0
    assert again(store.db, store.run, parse("")) == 1
    assert store.state(four.id) == "TAKEN"


@pytest.mark.parametrize("text", ["state:ready", "state:taken", "state:failed,taken", "state:delayed"])
def test_open_jobs_cannot_be_retried(store: StoreHarness, text: str) -> None:
    with pytest.raises(UsageError, match="cannot be retried"):
        again(store.db, store.run, parse(text))


def test_rows_of_a_done_job_are_deleted_and_files_rebuilt(store: StoreHarness) -> None:
    with store.db.transaction():
        outputs.ensure(
            store.db, store.run, appender="csv", type_="csv", data_def="book", path="/x", settings={"columns": []}
        )
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(store.done(one, data=['{"title":"a"}', '{"title":"b"}']), store.done(two, data=['{"title":"c"}']))
    (output,) = outputs.list_outputs(store.db, store.run)
    with store.db.transaction():
        outputs.advance(store.db, output.id, cursor=1, size=10, rows=1, inode=None)
    assert again(store.db, store.run, job_filter("/1$", ["done"])) == 1
    assert store.rows() == [(two.id, '{"title":"c"}')]
    assert store.row_counts() == {"book": (1, 0)}
    assert outputs.list_outputs(store.db, store.run)[0].dirty
    (leased,) = store.take("http://a/")
    store.commit(store.done(leased, data=['{"title":"a"}', '{"title":"b"}'], links=[Page("http://a/2")]))
    assert store.row_counts() == {"book": (3, 0)}
    assert len(store.jobs()) == 2


def test_a_retry_invalidates_the_document_of_a_browser_which_has_another_key(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    keys = [document_key(f"http://a/{number}", variant=Request(in_browser=True).variant) for number in (1, 2, 9)]
    first = replace(document("http://a/1"), keys=(keys[0], keys[2]))
    for number, (job, page) in enumerate(
        zip(store.take("http://a/"), (first, replace(document("http://a/2"), keys=keys[1:2])), strict=True), 1
    ):
        store.commit(store.done(job, page, page=number))
    assert set(documents.list_stored(store.db, store.run, keys, 0.0)) == set(keys)
    assert again(store.db, store.run, job_filter("/1$", ["done"])) == 1
    assert set(documents.list_stored(store.db, store.run, keys, 0.0)) == {keys[1]}


def test_the_page_of_a_retried_job_is_fetched_again(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    gone = document("http://b/else", redirected_from=["http://a/1"])
    store.commit(JobOutcome(job=one, state=JobState.FAILED, reason="HTTP 404 (gone)", effects=(gone,), page=1))
    store.commit(store.done(two, document("http://a/2"), page=2))
    keys = [document_key(u) for u in ("http://a/1", "http://b/else", "http://a/2")]
    assert set(documents.list_stored(store.db, store.run, keys, 0.0)) == set(keys)
    assert again(store.db, store.run, parse("")) == 1
    assert set(documents.list_stored(store.db, store.run, keys, 0.0)) == {keys[2]}
    assert documents.get_metadata(store.db, 1) is not None, "its old document can still be shown"


def test_a_redirected_job_starts_at_its_own_host(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    store.commit(moved(job, "http://b/1"))
    (job,) = store.take("http://b/")
    store.commit(failed(job))
    assert store.jobs("sequence") == [(store.sequence("http://b/"),)]
    assert again(store.db, store.run, parse("")) == 1
    assert store.jobs("sequence, target, hops") == [(store.sequence("http://a/"), None, 0)]
    store.check_counters()


def test_many_are_retried_in_batches(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BATCH", 3)
    store.seed(*(f"http://a/{n}" for n in range(8)))
    store.commit(*map(failed, store.take("http://a/")))
    assert again(store.db, store.run, parse("")) == 8
    assert count_jobs(store.db, store.run, parse("state:ready")) == 8
    store.check_counters()


def test_a_done_run_is_reopened(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.commit(*map(failed, store.take("http://a/")))
    finish_run(store)
    assert runs.latest_unfinished(store.db) is None
    assert again(store.db, store.run, parse("nothing like it")) == 0
    assert state_of_run(store) == "DONE", "a retry of no job reopens nothing"
    assert again(store.db, store.run, parse("")) == 1
    assert state_of_run(store) == "READY"
    assert runs.latest_unfinished(store.db) is not None


def test_only_the_latest_run_is_resumed(store: StoreHarness) -> None:
    store.seed("http://a/1")
    store.commit(*map(failed, store.take("http://a/")))
    finish_run(store)
    with store.db.transaction():
        runs.create(store.db, None, 0.0)
    with pytest.raises(UsageError, match="cannot be resumed"):
        again(store.db, store.run, parse(""))
    assert (state_of_run(store), store.jobs("state")) == ("DONE", [("FAILED",)])


@pytest.fixture
def supervised(store: StoreHarness) -> StoreHarness:
    """Two failed jobs, and a supervisor that is alive: this process."""
    store.seed("http://a/1", "http://a/2")
    store.commit(*map(failed, store.take("http://a/")))
    with store.db.transaction():
        supervisors.begin(store.db, identity_of(os.getpid()) or "", store.run, 0.0)
    return store


def put(store: StoreHarness, stage: Stage, state: RunState) -> None:
    store.db.execute("UPDATE runs SET stage = ?, state = ? WHERE seq = ?", (stage, state, store.run))


_GOING = [Stage.INIT, Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING]


@pytest.mark.parametrize("stage", list(Stage))
def test_an_ending_run_rejects_retries(supervised: StoreHarness, stage: Stage) -> None:
    put(supervised, stage, RunState.READY)
    if stage in _GOING:
        assert again(supervised.db, supervised.run, parse("")) == 2
        return
    with pytest.raises(UsageError, match="is ending"):
        again(supervised.db, supervised.run, parse(""))
    assert [s for _, s in supervised.jobs()] == ["FAILED", "FAILED"]
    assert supervised.db.value("SELECT count(*) FROM events WHERE source = 'operator'") == 0


def test_a_draining_run_rejects_retries(supervised: StoreHarness) -> None:
    put(supervised, Stage.RUNNING, RunState.DRAINING)
    with pytest.raises(UsageError, match="is ending"):
        again(supervised.db, supervised.run, parse(""))
    assert [s for _, s in supervised.jobs()] == ["FAILED", "FAILED"]


@pytest.mark.parametrize("identity", ["boot:1:1", "", "nonsense"])
def test_a_supervisor_that_died_while_ending_does_not_block_retries(supervised: StoreHarness, identity: str) -> None:
    put(supervised, Stage.STOPPING_NODES_GRACEFUL, RunState.DRAINING)
    supervised.db.execute("UPDATE supervisors SET identity = ? WHERE ended_at IS NULL", (identity,))
    assert again(supervised.db, supervised.run, parse("")) == 2
    assert state_of_run(supervised) == "READY"


def test_an_end_between_two_batches_is_reported(supervised: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_BATCH", 1)
    put(supervised, Stage.RUNNING, RunState.READY)
    batches = retry._retry_batch

    def end_after_one(*arguments: object) -> int:
        result = batches(*arguments)  # type: ignore[arg-type]
        put(supervised, Stage.CRAWL_COMPLETE, RunState.DRAINING)
        return result

    monkeypatch.setattr(retry, "_retry_batch", end_after_one)
    with pytest.raises(UsageError, match=r"1 job is READY again; then run .* is ending"):
        again(supervised.db, supervised.run, parse(""))
    assert sorted(s for _, s in supervised.jobs()) == ["FAILED", "READY"]


def test_the_end_of_a_run_and_a_retry_exclude_each_other(new_store: Callable[..., StoreHarness]) -> None:
    """Whichever transaction comes first, the run is not DONE with a job that is READY."""
    from crawl_engine.store.tables.job import jobs

    for first in ("end", "retry"):
        store = new_store()
        store.seed("http://a/1")
        store.commit(*map(failed, store.take("http://a/")))
        with store.db.transaction():
            supervisors.begin(store.db, identity_of(os.getpid()) or "", store.run, 0.0)
        put(store, Stage.RUNNING, RunState.READY)
        if first == "retry":
            assert again(store.db, store.run, parse("")) == 1
        with store.db.transaction():
            ended = not jobs.has_open_jobs(store.db, store.run) and runs.set_state(
                store.db, store.run, RunState.DRAINING
            )
        assert ended is (first == "end")
        if first == "end":
            with pytest.raises(UsageError):
                again(store.db, store.run, parse(""))


def test_rejected_records_count_once_however_often_their_page_is_done(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(store.done(one, RejectedRecords("book", 3)), store.done(two, RejectedRecords("book", 1)))
    for left in (2, 5):
        assert again(store.db, store.run, parse("state:done a/1")) == 1
        assert store.row_counts()["book"] == (0, 1)
        (one,) = store.take("http://a/")
        store.commit(store.done(one, RejectedRecords("book", left)))
        assert store.row_counts()["book"] == (0, 1 + left)
