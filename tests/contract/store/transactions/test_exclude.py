"""Queued jobs are taken out of a run and back in; a retry is taken back where no node took the job."""

import time

import pytest

from crawl_console.filter_syntax import parse
from crawl_engine.errors import UsageError
from crawl_engine.model.run import RunState
from crawl_engine.store.read import browse
from crawl_engine.store.read.failures import (
    FailureGroup,
    group_failures,
    list_failure_times,
    read_failure_bounds,
    read_host_errors,
)
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.run import checkpoints, runs, supervisors
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions import exclude, retry
from tests.contract.store.harness import StoreHarness, failed


def test_queued_jobs_that_match_are_skipped_and_come_back(store: StoreHarness) -> None:
    store.seed("http://a/calendar/1", "http://a/calendar/2", "http://a/item/1")
    store.take("http://a/", free=1)  # a node holds the first
    exclusion = exclude.exclude(store.db, store.run, parse("calendar"))
    assert len(exclusion.ids) == 1
    assert exclusion.reason == "excluded by an operator: calendar"
    states = dict(store.jobs("url, state"))
    assert states == {"http://a/calendar/1": "TAKEN", "http://a/calendar/2": "SKIPPED", "http://a/item/1": "READY"}
    store.check_counters()
    assert exclude.readmit(store.db, store.run, exclusion) == 1
    assert dict(store.jobs("url, state"))["http://a/calendar/2"] == "READY"
    store.check_counters()
    assert exclude.readmit(store.db, store.run, exclusion) == 0


@pytest.mark.parametrize("match", ["item", "group:g item", "!nothing", "depth<5"])
def test_many_jobs_are_excluded_batch_by_batch(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch, match: str
) -> None:
    monkeypatch.setattr(browse, "_CHUNK", 40)
    store.seed(*(f"http://a/item/{number}" for number in range(100)))
    counts: list[int] = []
    seen: list[int] = []

    def note(number: int) -> None:
        counts.append(number)
        seen.append(sequences.count(store.db, store.run, "skipped"))

    exclusion = exclude.exclude(store.db, store.run, parse(match), note)
    assert [count for count in counts if count] == [40, 40, 20]
    assert seen[:3] == [40, 80, 100], "a batch is skipped before the next one is searched"
    assert len(exclusion.ids) == 100
    texts = [text for (text,) in store.db.all("SELECT text FROM events WHERE source = 'operator'")]
    assert texts == [f"exclude: 100 jobs SKIPPED ({match})"], "one event for all"
    store.check_counters()


def test_jobs_skipped_for_another_reason_stay(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    first, _ = [exclude.exclude(store.db, store.run, parse(filter_)) for filter_ in ("a/1", "a/2")]
    assert exclude.readmit(store.db, store.run, first) == 1
    assert dict(store.jobs("url, state")) == {"http://a/1": "READY", "http://a/2": "SKIPPED"}


def test_only_queued_jobs_can_be_excluded(store: StoreHarness) -> None:
    with pytest.raises(UsageError, match="DONE cannot be excluded"):
        exclude.exclude(store.db, store.run, parse("state:done"))
    with pytest.raises(UsageError, match="kind robots cannot be excluded"):
        exclude.exclude(store.db, store.run, parse("kind:robots"))


def test_a_retry_is_taken_back_for_jobs_that_no_node_took(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, three = store.take("http://a/")
    store.commit(failed(one, "HTTP 500"), failed(two, "HTTP 500"), store.done(three))
    ids = [one.id, two.id, three.id]
    ended = exclude.list_ended(store.db, ids)
    assert [job[:3] for job in ended] == [
        (one.id, "FAILED", "HTTP 500"), (two.id, "FAILED", "HTTP 500"),
    ]  # fmt: skip
    assert retry.retry_jobs(store.db, store.run, [one.id, two.id]) == 2
    assert group_failures(store.db, store.run, 10) == []
    (taken,) = store.take("http://a/", free=1)
    assert exclude.end_again(store.db, store.run, ended, time.time()) == 1
    assert dict(store.jobs("id, state"))[taken.id] == "TAKEN"
    assert group_failures(store.db, store.run, 10) == [FailureGroup("a:80", "HTTP 500", 1, ("g",))]
    store.check_counters()


def test_failures_are_counted_by_reason_and_host(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://b/1", "http://b/2")
    one, two = store.take("http://a/")
    three, four = store.take("http://b/")
    event = Event(1.0, "ERROR", "n1", "page", "FAILED: HTTP 500  http://b/1", three.id)
    store.commit(failed(one, "HTTP 500"), failed(two, "HTTP 500"))
    store.commit(failed(three, "HTTP 500").add(event), failed(four, "timeout"))
    assert group_failures(store.db, store.run, 10) == [
        FailureGroup("a:80", "HTTP 500", 2, ("g",)),
        FailureGroup("b:80", "HTTP 500", 1, ("g",)),
        FailureGroup("b:80", "timeout", 1, ("g",)),
    ]
    times = list_failure_times(store.db, store.run, "a:80", "HTTP 500")
    assert [round(time.time() - at) < 60 for at in times] == [True, True]
    assert list_failure_times(store.db, store.run, "b:80", "HTTP 404") == []
    bounds = read_failure_bounds(store.db, store.run)
    assert bounds.keys() == {("a:80", "HTTP 500"), ("b:80", "HTTP 500"), ("b:80", "timeout")}
    assert bounds["a:80", "HTTP 500"] == (min(times), max(times))
    errors = read_host_errors(store.db, store.run, "b:80", 10)
    assert [(group.reason, group.jobs) for group in errors.groups] == [("HTTP 500", 1), ("timeout", 1)]
    assert [line.text for _, line in errors.events] == ["FAILED: HTTP 500  http://b/1"]
    store.db.execute("DELETE FROM jobs WHERE id = ?", (one.id,))
    assert group_failures(store.db, store.run, 1) == [FailureGroup("a:80", "HTTP 500", 1, ("g",))]


def test_a_run_whose_retry_is_taken_back_is_done_as_before(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/")
    store.commit(failed(one, "HTTP 500"), failed(two, "HTTP 500"))
    with store.db.transaction():
        store.db.execute("UPDATE runs SET stage = 'SHUTDOWN_COMPLETE'")
        runs.set_state(store.db, store.run, RunState.DRAINING)
        runs.set_state(store.db, store.run, RunState.DONE)
        runs.end(store.db, store.run, 9.0, 1, None)
        supervisors.end(store.db, store.supervisor, 9.0)
        step = Checkpoint(step="loader", group="g", completed_at=9.0, status="valid", content_hash="x")
        checkpoints.write(store.db, store.run, [step])
    before = runs.get(store.db, store.run), checkpoints.list_checkpoints(store.db, store.run)
    ended = exclude.list_ended(store.db, [one.id, two.id])
    assert retry.retry_jobs(store.db, store.run, [one.id, two.id]) == 2
    assert runs.get(store.db, store.run).state is RunState.READY
    assert exclude.end_again(store.db, store.run, ended[:1], time.time()) == 1
    assert runs.get(store.db, store.run).state is RunState.READY, "one is still to be done"
    assert exclude.end_again(store.db, store.run, ended[1:], time.time()) == 1
    assert (runs.get(store.db, store.run), checkpoints.list_checkpoints(store.db, store.run)) == before
