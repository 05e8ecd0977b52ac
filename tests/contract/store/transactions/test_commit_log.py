"""An error of the program inside a commit is logged with its traceback, and fails no more than the job it is about."""

import logging
from collections.abc import Iterator

import pytest

from crawl_engine.runtime.log_file import DedupFilter
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.row import rows
from crawl_engine.store.transactions import commit as commit_module
from tests.contract.store.harness import StoreHarness, unwritable

LOGGER = "crawl_engine.store.transactions.commit"


@pytest.fixture(autouse=True)
def deduplicated_log() -> Iterator[None]:
    """Filter the log as a node does."""
    dedup = DedupFilter()
    logging.getLogger(LOGGER).addFilter(dedup)
    yield
    logging.getLogger(LOGGER).removeFilter(dedup)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.exc_text or logging.Formatter().formatException(r.exc_info) for r in caplog.records if r.exc_info]


def test_an_error_of_the_program_in_a_group_is_logged_with_its_traceback(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.seed("http://a/1", "http://a/2")
    jobs = store.take("http://a/")
    add = rows.add

    def fails_on_groups(db, run, new):
        if len(new) > 1:
            raise ZeroDivisionError("a fault of rows.add")
        add(db, run, new)

    monkeypatch.setattr(rows, "add", fails_on_groups)
    outcomes = [store.done(job, data=["{}"]) for job in jobs]
    assert store.commit(*outcomes).accepted_ids == {job.id for job in jobs}
    assert [state for _, state in store.jobs()] == ["DONE", "DONE"], "one by one, they can be written"
    (text,) = tracebacks(caplog)
    assert "ZeroDivisionError: a fault of rows.add" in text
    assert "in fails_on_groups" in text
    assert store.list_events() == [], "no job failed"


def test_an_error_that_keeps_occurring_is_logged_once(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise TypeError("never writable")

    monkeypatch.setattr(host_speeds, "count_answers", fails)
    store.seed("http://a/1", "http://a/2")
    for job in store.take("http://a/"):
        with pytest.raises(TypeError):  # also the job's failure is written by the broken code
            store.commit(store.done(job))
    assert len([text for text in tracebacks(caplog) if "TypeError: never writable" in text]) == 2, "group, then job"


def test_a_result_that_cannot_be_written_fails_its_job_with_an_event(
    store: StoreHarness, caplog: pytest.LogCaptureFixture
) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    good, *bad = store.take("http://a/")
    store.commit(store.done(good), *(unwritable(store, job, "row") for job in bad))
    assert [state for _, state in store.jobs()] == ["DONE", "FAILED", "FAILED"]
    assert [(e.level, e.kind, e.job) for e in store.list_events()] == [("ERROR", "page", job.id) for job in bad]
    assert all("cannot be stored: UnicodeEncodeError" in e.text for e in store.list_events())
    assert all(e.at > 1e9 for e in store.list_events()), "the time is now"
    assert [r.getMessage() for r in caplog.records if r.name == LOGGER] == [
        "a group of results cannot be written; writing them one by one",
        "the result of a job cannot be written; the job has failed",
    ], "one line for each kind"


def test_an_error_in_the_refill_is_logged_and_the_results_are_kept(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a fault of the lease")

    store.seed(*[f"http://a/{n}" for n in range(4)])
    first = store.lease(1, free=2).jobs
    monkeypatch.setattr(commit_module, "lease_sequences", fails)
    result = store.commit(*map(store.done, first), free=2)
    assert result.accepted_ids == {job.id for job in first}
    assert result.leased == ()
    (text,) = tracebacks(caplog)
    assert "KeyError: 'a fault of the lease'" in text
