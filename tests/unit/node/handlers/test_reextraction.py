"""A re-extraction reports what a fetched page would, and holds its stored body's bytes until its rows are committed."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from crawl_engine.http.byte_budget import BodyShare, ByteBudget
from crawl_engine.model.job import JobKind, JobState, LeasedJob, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.noindex import NoindexPart
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.supersede import OldRows
from tests.unit.node.contexts import pipeline_of
from tests.unit.node.leased_jobs import change, leased

BODY = b"x" * 500_000
STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=len(BODY), fetched_at=1.0)
JOB = change(leased(1), kind=JobKind.EXTRACT, stored=STORED, page_job=42)


class Extractor:
    """Extracts one row; meanwhile `other` is dropped, and another large body is read: this one is read completely."""

    def __init__(self, budget: ByteBudget, other: BodyShare, *, drops_rows: bool) -> None:
        self.budget = budget
        self.other = other
        self.drops_rows = drops_rows

    async def extract(self, job: LeasedJob, **page: object) -> PageExtraction:
        self.other.release()
        large = self.budget.open_share()
        await asyncio.wait_for(large.grow(900_000), 0.5)
        large.release()
        rows, parts = ((0, ("{}",)),), RuleParts({"noindex": NoindexPart(drops_rows=self.drops_rows)})
        result = PageResult(page_kind="html", rows=rows, damaged=3, dropped_links=1234, parts=parts)
        return PageExtraction(result, [Mock(data_def="d", id=1)])

    def unchanged_data_defs(self, job: LeasedJob) -> tuple[int, ...]:
        return (9,)


@pytest.fixture
def budget() -> ByteBudget:
    return ByteBudget(capacity=1_500_000, largest=1_000_000)


def reextract(budget: ByteBudget, content: StoredBody | None, *, drops_rows: bool = False) -> JobOutcome:
    other = budget.open_share()
    assert other.try_grow(400_000)
    db_access = AsyncMock(**{"page_body.return_value": content})
    extractor = Extractor(budget, other, drops_rows=drops_rows)
    pipeline = pipeline_of(budget, db_access=db_access, page_extractor=extractor)
    outcome = asyncio.run(pipeline.process(JOB, lambda: None))
    other.release()
    return outcome


def test_it_says_what_was_dropped_or_replaced_about_the_job_of_the_page(budget: ByteBudget) -> None:
    outcome = reextract(budget, StoredBody(Body(BODY), ()))
    assert (outcome.state, len(outcome.find_all(NewRows)), outcome.find(OldRows)) == (JobState.DONE, 1, OldRows((9,)))
    page, links = outcome.find_all(Event)
    assert "3 bytes replaced; noindex" in page.text
    assert links.text.startswith("1,234 links beyond max_links")
    assert {event.job for event in (page, links)} == {42}
    assert not outcome.stats.noindex, "the page was counted when it was fetched"


def test_a_page_that_gives_no_rows_now_keeps_none_of_an_unchanged_data_def(budget: ByteBudget) -> None:
    outcome = reextract(budget, StoredBody(Body(BODY), ()), drops_rows=True)
    assert (outcome.state, outcome.find(OldRows)) == (JobState.DONE, OldRows())


def test_its_bytes_are_held_until_it_is_committed(budget: ByteBudget) -> None:
    outcome = reextract(budget, StoredBody(Body(BODY), ()))
    assert budget.used > 400_000
    outcome.settle()
    assert budget.used == 0


def test_a_missing_page_keeps_its_rows_and_holds_nothing(budget: ByteBudget) -> None:
    outcome = reextract(budget, None)
    assert outcome.state is JobState.FAILED
    assert "it keeps its old rows" in outcome.find_all(Event)[0].text
    assert budget.used == 0
