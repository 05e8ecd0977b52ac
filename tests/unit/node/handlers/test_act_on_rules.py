"""What becomes of a job whose page a rule does not keep."""

from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import HostPlan, JobKind, JobState, LeasedJob, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.act_on_rules import ActOnRules
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.rule import Decision, EndPage, LogInAgain, RetryPage, RulePart, SkipPage
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.job.jobs import AskedAgain
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.logins import LoginNews
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
JOB = leased(1)
EXTRACT = change(JOB, kind=JobKind.EXTRACT, page_job=42)
DOCUMENT = NewDocument((b"k",), "http://a/1", 200, "text/html", 0.0, (), Body(b"text"))
STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=4, fetched_at=1.0)


class Found(RulePart, frozen=True):
    decision: Decision | None

    def decide(self, job: LeasedJob) -> Decision | None:
        return self.decision


def page_with(*decisions: Decision | None, **more: Any) -> VisitedPage:
    parts = RuleParts({str(number): Found(decision) for number, decision in enumerate(decisions)})
    extraction = PageExtraction(PageResult(page_kind="html", parts=parts), share=Mock())
    return visited(content=StoredBody(Body(b"text"), ()), extraction=extraction, url="http://a/1", **more)


async def act(page: VisitedPage, job: LeasedJob = JOB, *, asked_again: bool = False) -> Any:
    extractor = Mock(**{"list_children.side_effect": lambda _, links: links})
    return await ActOnRules(extractor, Mock(**{"was_asked_again.return_value": asked_again}), OUTCOMES).run(job, page)


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


async def test_a_page_for_visitors_is_not_stored() -> None:
    rule = LoginRule(url="/login", form={}, on_lost="pause")
    lost = await act(page_with(LogInAgain(reason="why"), login=rule, document=DOCUMENT))
    assert (lost.state, lost.find(LoginNews), lost.find(NewDocument)) == (JobState.READY, LoginNews("pause"), None)
    page = page_with(LogInAgain(reason="why"))
    assert await act(page) is page, "it was fetched without a login"


async def test_a_page_that_ends_its_series_is_done_without_rows() -> None:
    done = await act(page_with(EndPage(text="the last page"), document=DOCUMENT))
    assert (done.state, done.find(NewRows), done.find(NewDocument)) == (JobState.DONE, None, DOCUMENT)
    assert [event.text for event in done.find_all(Event)] == ["the last page  http://a/1"]


async def test_a_page_is_retried_and_the_last_answer_is_kept() -> None:
    again = await act(page_with(RetryPage(reason="why"), document=replace(DOCUMENT)))
    assert (again.state, again.attempts, again.find(NewDocument)) == (JobState.READY, 1, None)
    failed = await act(page_with(RetryPage(reason="why"), document=replace(DOCUMENT), hops=2), change(JOB, attempts=2))
    assert (failed.state, failed.hops, failed.find(NewDocument).keys) == (JobState.FAILED, 2, ())


@pytest.mark.parametrize("decision", [Decision(confirm="nothing"), SkipPage(reason="why", confirm="nothing")])
async def test_what_may_pass_is_asked_for_once_more(decision: Decision) -> None:
    confirming = JOB._replace(plan=HostPlan(group=TaskGroup(name="g", confirm_end=True)))

    def sent(requests: int = 1, **more: Any) -> VisitedPage:
        page = page_with(decision, **more)
        page.attempt.requests = requests
        return page

    led_here = confirming._replace(target="http://a/2")  # an earlier lease sent the request of its URL
    for page, job in ((sent(), confirming), (sent(0), led_here)):
        again = await act(page, job)
        assert (again.state, again.find(AskedAgain)) == (JobState.READY, AskedAgain())
    for page, job, asked_again in (
        (sent(), confirming, True), (sent(0), confirming, False), (sent(checked=Mock()), confirming, False),
        (sent(), JOB._replace(plan=HostPlan(group=TaskGroup(name="g", confirm_end=False))), False),
    ):  # fmt: skip
        outcome = await act(page, job, asked_again=asked_again)
        assert outcome is page if type(decision) is Decision else outcome.state is JobState.SKIPPED
