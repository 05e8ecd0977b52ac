"""The pipeline: the order of its stages; a share of the body budget is released on every way out."""

import asyncio
import re
from collections.abc import Callable

import pytest

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.errors import NoFileLeft, NoRoom
from crawl_engine.model.job import JobKind, JobState, LeasedJob
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable
from crawl_engine.node.handlers.page_fetch import Fetch
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.runtime.clock import boottime
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.events import Event
from tests.unit.doc_pages import ROOT
from tests.unit.node.contexts import pipeline_of
from tests.unit.node.leased_jobs import leased

DOCUMENT = NewDocument((b"k",), "http://a/1", 200, "text/html", 0.0, (), Body(b"x" * 500_000))


@pytest.fixture
def budget() -> ByteBudget:
    return ByteBudget(capacity=2_000_000, largest=1_000_000)


def process(budget: ByteBudget, end: Callable[[LeasedJob], JobOutcome]) -> JobOutcome:
    """Process a job that has read half a MB and ends like that."""
    pipeline = pipeline_of(budget)

    async def work(job: LeasedJob, page: VisitedPage) -> JobOutcome:
        await page.attempt.share.grow(500_000)
        return end(job)

    pipeline._process = work  # type: ignore[method-assign]
    return asyncio.run(pipeline.process(leased(1), lambda: None))


def test_a_document_holds_its_share_until_it_is_settled(budget: ByteBudget) -> None:
    outcome = process(budget, lambda job: JobOutcome(job=job, state=JobState.DONE, effects=(DOCUMENT,)))
    assert budget.used > 400_000
    outcome.settle()
    outcome.settle()
    assert budget.used == 0
    assert not outcome.effects


def test_an_outcome_without_a_document_holds_nothing(budget: ByteBudget) -> None:
    process(budget, lambda job: JobOutcome(job=job, state=JobState.READY))
    assert budget.used == 0


@pytest.mark.parametrize("error", [asyncio.CancelledError("stop"), RuntimeError("a fault")])
def test_a_job_that_is_cancelled_or_fails_holds_nothing(budget: ByteBudget, error: BaseException) -> None:
    def end(job: LeasedJob) -> JobOutcome:
        raise error

    with pytest.raises(type(error)):
        process(budget, end)
    assert budget.used == 0


def test_a_body_without_room_is_tried_again_later_and_costs_no_attempt(budget: ByteBudget) -> None:
    def end(_: LeasedJob) -> JobOutcome:
        raise NoRoom

    outcome = process(budget, end)
    assert (outcome.state, outcome.attempts, outcome.find(HostFailure)) == (JobState.READY, 0, None)
    assert outcome.not_before is not None
    assert outcome.not_before > boottime()
    assert budget.used == 0


def test_a_job_without_an_open_file_waits_and_says_so(budget: ByteBudget) -> None:
    def end(_: LeasedJob) -> JobOutcome:
        raise NoFileLeft("no open file is left")

    outcome = process(budget, end)
    assert (outcome.state, outcome.attempts, outcome.find(HostFailure)) == (JobState.READY, 0, None)
    event = outcome.find(Event)
    assert event is not None
    assert event.text.startswith("no open file is left  http://")


def test_a_page_for_which_no_process_can_be_started_is_retried_and_its_host_is_not_blamed(budget: ByteBudget) -> None:
    def end(_: LeasedJob) -> JobOutcome:
        raise ExtractionUnavailable("no process")

    outcome = process(budget, end)
    assert (outcome.state, outcome.attempts, outcome.find(HostFailure)) == (JobState.READY, 1, None)
    assert outcome.reason == "no process"
    assert budget.used == 0


def test_the_stages_of_a_page_are_drawn_in_the_architecture(budget: ByteBudget) -> None:
    stages = pipeline_of(budget)._stages[JobKind.PAGE]
    (fetch,) = (stage for stage in stages if isinstance(stage, Fetch))
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    page, _, hop = text.partition(" page:")[2].partition("```")[0].partition(" hop:")
    assert re.findall(r"\w+", page) == [type(stage).__name__ for stage in stages]
    assert re.findall(r"\w+", hop) == [type(rule).__name__ for rule in fetch.hop_rules]
