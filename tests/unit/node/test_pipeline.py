"""A job's share of the body budget is released on every way out of the pipeline."""

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from engine.fetch.byte_budget import ByteBudget
from engine.model.job import JobState, LeasedJob
from engine.node.pipeline import Pipeline
from engine.node.secrets import SecretValues
from engine.settings import Settings
from engine.store.pages.documents import NewDocument
from engine.store.transactions.outcome import JobOutcome
from tests.unit.node.leased_jobs import leased

DOCUMENT = NewDocument((b"k",), "http://a/1", 200, "text/html", 0.0, (), b"x" * 500_000)


@pytest.fixture
def budget() -> ByteBudget:
    return ByteBudget(capacity=2_000_000, largest=1_000_000)


def process(budget: ByteBudget, end: Callable[[LeasedJob], JobOutcome]) -> JobOutcome:
    """Process a job that has read half a MB and ends like that."""
    pipeline = Pipeline(
        source="n1", settings=Settings(), fetcher=Mock(), db_access=Mock(), def_cache=Mock(), secrets=SecretValues(),
        page_extractor=Mock(), named_hosts=Mock(), host_gates=Mock(), byte_budget=budget,
    )  # fmt: skip

    async def work(job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        await pipeline._sender.share(job).grow(500_000)
        return end(job)

    pipeline._process = work  # type: ignore[method-assign]
    return asyncio.run(pipeline.process(leased(1), lambda: None))


def test_a_document_holds_its_share_until_it_is_settled(budget: ByteBudget) -> None:
    outcome = process(budget, lambda job: JobOutcome(job=job, state=JobState.DONE, document=DOCUMENT))
    assert budget.used > 400_000
    outcome.settle()
    outcome.settle()
    assert budget.used == 0
    assert outcome.document is None


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
