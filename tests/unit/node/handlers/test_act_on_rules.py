"""What becomes of a job whose page a rule does not keep."""

from typing import Any
from unittest.mock import Mock

import pytest

from crawl_engine.model.job import JobKind, JobState, LeasedJob, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.act_on_rules import ActOnRules
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.rule import Decision, RulePart, SkipPage
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.row.rows import NewRows
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
JOB = leased(1)
EXTRACT = change(JOB, kind=JobKind.EXTRACT, page_job=42)
STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=4, fetched_at=1.0)


class Found(RulePart, frozen=True):
    decision: Decision | None

    def decide(self, job: LeasedJob) -> Decision | None:
        return self.decision


def page_with(*decisions: Decision | None, **more: Any) -> VisitedPage:
    parts = RuleParts({str(number): Found(decision) for number, decision in enumerate(decisions)})
    extraction = PageExtraction(PageResult(page_kind="html", parts=parts), share=Mock())
    return visited(content=StoredBody(Body(b"text"), ()), extraction=extraction, url="http://a/1", **more)


async def act(page: VisitedPage, job: LeasedJob = JOB) -> Any:
    extractor = Mock(**{"list_children.side_effect": lambda _, links: links})
    return await ActOnRules(extractor, OUTCOMES).run(job, page)


async def test_a_page_that_all_rules_keep_goes_on() -> None:
    for page in (visited(), page_with(), page_with(None), page_with(Decision())):
        assert await act(page) is page


async def test_the_first_rule_that_does_not_keep_a_page_ends_its_job() -> None:
    page = page_with(None, SkipPage(reason="one"), SkipPage(reason="two"))
    assert (await act(page)).reason == "one"


async def test_a_skipped_page_gives_no_rows_and_leads_to_others() -> None:
    link = Mock()
    page = page_with(SkipPage(reason="why", links=(link,)), stored=STORED)
    skipped = await act(page)
    assert (skipped.state, skipped.reason, skipped.page) == (JobState.SKIPPED, "why", 7)
    assert (skipped.find(NewRows), skipped.find(Children)) == (None, Children((link,)))
    skipped.settle()
    page.extraction.share.release.assert_called_once()  # type: ignore[union-attr]
    assert (await act(page, EXTRACT)).state is JobState.DONE, "its rows are replaced by none"
