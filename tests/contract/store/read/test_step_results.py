"""What plugin steps reported: lists in pages, counts in the snapshot, and the filter of jobs by it."""

import pytest

from crawl_console.filter_syntax import parse
from crawl_engine.judge import summary
from crawl_engine.model.job import JobState
from crawl_engine.model.step import StepResult
from crawl_engine.store.read import browse, job_range, snapshot, step_results
from crawl_engine.store.read.step_results import ResultFilter
from crawl_engine.store.tables.job import results
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.outcome import Commit, JobOutcome
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness
from tests.contract.store.step_reports import report
from tests.unit.node.leased_jobs import leased


@pytest.fixture
def pages(store: StoreHarness) -> dict[str, int]:
    """A job for each outcome, one for two, and one without results, by the end of their URLs."""
    ids = {
        "ok": report(store, "http://a/ok", ["ok"]),
        "warning": report(store, "http://a/warning", ["warning"], text="odd", code="w"),
        "error": report(store, "http://a/error", ["error"], text="no price"),
        "not": report(store, "http://a/not", ["not_applicable"]),
        "both": report(store, "http://b/both", ["ok", "warning"], group="h"),
    }
    store.seed("http://a/none")
    (job,) = store.take("http://a/none", free=1)
    store.commit(store.done(job))
    return {**ids, "none": job.id}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("outcome:error", ["error"]),
        ("outcome:warning", ["warning", "both"]),
        ("outcome:ok", ["ok", "both"]),
        ("outcome:not_applicable", ["not"]),
        ("outcome:ok,not_applicable", ["ok", "not", "both"]),
        ("outcome:error outcome:OK", ["ok", "error", "both"]),
        ("!outcome:ok", ["warning", "error", "not", "none"]),
        ("!outcome:ok !outcome:warning,not_applicable", ["error", "none"]),
        ("outcome:ok !outcome:warning", ["ok"]),
        ("state:failed outcome:error", ["error"]),
        ("state:done outcome:error", []),
        ("outcome:error group:h", []),
        ("outcome:warning both", ["both"]),
    ],
)
def test_jobs_are_selected_by_what_their_steps_reported(
    store: StoreHarness, pages: dict[str, int], text: str, expected: list[str]
) -> None:
    ids = [pages[name] for name in expected]
    for backwards in (False, True):
        lines = browse.list_jobs(store.db, store.run, parse(text), backwards=backwards).lines
        assert sorted(line.id for line in lines) == ids
    assert browse.count_jobs(store.db, store.run, parse(text)) == len(ids)
    assert sorted(id_ for chunk in browse.iter_ids(store.db, store.run, parse(text)) for id_ in chunk) == ids


def test_few_errors_are_looked_up_and_many_are_searched_for(
    store: StoreHarness, pages: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = store.plans(lambda: browse.list_jobs(store.db, store.run, parse("outcome:error")))
    (steps,) = [steps for sql, steps in plans if "CROSS JOIN runs" in sql]
    assert any("results_error" in step for step in steps)
    monkeypatch.setattr(step_results, "query_error_jobs", lambda *_: None)
    (line,) = browse.list_jobs(store.db, store.run, parse("outcome:error")).lines
    assert line.id == pages["error"]


def test_a_page_has_its_results_and_its_counts(store: StoreHarness, pages: dict[str, int]) -> None:
    detail = browse.get_detail(store.db, pages["both"])
    assert detail is not None
    assert [(r.group, r.task, r.step, r.outcome, r.ms) for r in detail.results] == [
        ("h", "list", "mark", "ok", 1.25), ("h", "list", "mark", "warning", 1.25),
    ]  # fmt: skip
    assert detail.unlisted_results == ()
    detail = browse.get_detail(store.db, pages["not"])
    assert detail is not None
    assert detail.results == ()
    assert [tuple(count) for count in detail.unlisted_results] == [("g", "list", "mark", "not_applicable", 1)]


def test_results_are_read_in_pages_both_ways(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_results, "_CHUNK", 3)
    monkeypatch.setattr(job_range, "_WINDOW", 5)
    first = report(store, "http://a/1", ["ok"] * 9 + ["warning"] * 4)
    second = report(store, "http://a/2", ["ok", "error"])
    with store.db.transaction():
        newer = runs.create(store.db, None, 2.0).seq
        page = JobOutcome(job=leased(second), state=JobState.DONE)
        new = UnitResult(store.book, "g", StepResult("list", "mark", "ok", "", 1.0, ""))
        results.write(Commit(store.db, newer, 0.0, store.places), [(page, new)] * 7)
    for filter_, jobs in (
        (ResultFilter(), [first] * 13 + [second] * 2),
        (ResultFilter(job=first), [first] * 13),
        (ResultFilter(outcome="ok"), [first] * 9 + [second]),
        (ResultFilter(outcome="warning"), [first] * 4),
        (ResultFilter(outcome="error"), [second]),
        (ResultFilter(outcome="error", job=first), []),
        (ResultFilter(group="g", task="list"), [first] * 13 + [second] * 2),
        (ResultFilter(group="h"), []),
        (ResultFilter(task="plain"), []),
    ):
        lines = list(step_results.iter_results(store.db, store.run, filter_))
        assert [line.job for line in lines] == jobs, filter_
        assert [line.id for line in lines] == sorted({line.id for line in lines})
        assert list(step_results.iter_results(store.db, store.run, filter_, backwards=True)) == lines[::-1]
    newest = step_results.list_by_job(store.db, store.run, first, 5)
    assert [line.outcome for line in newest] == ["ok"] + ["warning"] * 4


def test_the_snapshot_has_the_counts_of_its_run(store: StoreHarness, pages: dict[str, int]) -> None:
    counts = {
        "g/list": {"mark": {"ok": 1, "warning": 1, "error": 1, "not_applicable": 1}},
        "h/list": {"mark": {"ok": 1, "warning": 1, "error": 0, "not_applicable": 0}},
    }
    view = snapshot.read(store.db)
    assert view.results == counts
    assert summary.build_report(view, exit_code=0)["results"] == counts
    with store.db.transaction():
        newer = runs.create(store.db, None, 2.0).seq
    assert snapshot.read(store.db, run=newer).results == {}
    assert snapshot.EMPTY_SNAPSHOT.results == {}


def test_the_counts_are_read_by_an_index(store: StoreHarness, pages: dict[str, int]) -> None:
    plans = store.plans(lambda: step_results.count_by_step(store.db, store.run))
    assert [steps for _, steps in plans] == [["SEARCH result_counts USING PRIMARY KEY (run=?)"]]
