"""A page that leads to another one by itself is put back there, by the rules for redirects."""

from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.http.redirects import RedirectChain
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import JobState, LeasedJob, Request, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.follow_refresh import FollowRefresh
from crawl_engine.node.handlers.hop_rules import KeepLogin, LeaseAgain, StayOnSite
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules import RuleParts
from crawl_engine.node.rules.refresh import RefreshPart
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.tables.outcome import JobOutcome
from tests.unit.node.leased_jobs import leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
JOB = leased(1)
ANSWER = FetchResponse(
    url="http://a/1", status=200, headers=(), body=b"", received=0, elapsed=0.0, content_type="text/html",
    location=None, location_problem="", retry_after=None,
)  # fmt: skip
STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=4, fetched_at=1.0)


def chain(hops: int = 0, *, limit: int = 5, request: Request | None = None, cookies: str = "") -> RedirectChain:
    return RedirectChain("http://a/1", request or Request(), limit=limit, hops=hops, find_cookies=lambda *_: cookies)


def leading_to(target: str) -> PageExtraction:
    parts = RuleParts({"refresh": RefreshPart(target)} if target else {})
    return PageExtraction(PageResult(page_kind="html", parts=parts))


def page_to(target: str, from_chain: RedirectChain, answer: FetchResponse = ANSWER) -> VisitedPage:
    page = visited(chain=from_chain).arrive(answer)
    page.document = Mock(spec=NewDocument)
    page.extraction = leading_to(target)
    return page


async def follow(page: VisitedPage, refusal: str | None = None, job: LeasedJob = JOB) -> Any:
    rule = Mock(**{"refusal.return_value": refusal})
    keep_login = KeepLogin(OUTCOMES)
    stage = FollowRefresh(OUTCOMES, (StayOnSite(rule, OUTCOMES), keep_login, LeaseAgain(OUTCOMES, always=True)))
    return await stage.run(job, page)


@pytest.mark.parametrize(("target", "host"), [("http://a/2", None), ("http://b/2", ("b:80", "http://b"))])
async def test_the_job_is_put_back_at_the_target_and_the_page_is_not_stored(target: str, host: Any) -> None:
    outcome = await follow(page_to(target, chain(1)))
    assert (outcome.state, outcome.target, outcome.hops, outcome.next_host) == (JobState.READY, target, 2, host)
    assert outcome.attempts == 0
    assert not outcome.effects


async def test_a_page_without_a_refresh_passes() -> None:
    page = page_to("", chain())
    assert await follow(page) is page
    page = visited(chain=chain())
    assert await follow(page) is page


@pytest.mark.parametrize("target", ["http://a/2", "http://b/2"])
@pytest.mark.parametrize("method", ["PUT", "POST", "GET"])
async def test_the_target_of_a_form_is_asked_for_by_get_without_body(method: str, target: str) -> None:
    outcome = await follow(page_to(target, chain(request=Request(method=method, body="x=%{env.KEY}"))))
    assert (outcome.state, outcome.target, outcome.hops) == (JobState.READY, target, 1)


async def test_the_rules_for_redirects_apply() -> None:
    refused = await follow(page_to("http://b/2", chain()), "it leaves the site")
    assert (refused.state, refused.reason) == (JobState.SKIPPED, "it leaves the site")
    refused = await follow(page_to("file:///etc/passwd", chain()))
    assert refused.state is JobState.FAILED
    assert refused.reason == "redirect to a URL that is not http or https: file:///etc/passwd"
    ended = await follow(page_to("http://a/2", chain(5)))
    assert (ended.state, ended.reason) == (JobState.FAILED, "more than 5 redirects")


async def test_pages_that_lead_to_each_other_are_a_loop() -> None:
    looping = chain()
    looping.follow("http://a/2")
    page = page_to("http://a/1", looping)
    ended = await follow(page)
    assert (ended.state, ended.reason) == (JobState.FAILED, "redirect loop")


async def test_a_page_that_leads_to_itself_is_a_page_unless_it_set_the_first_cookie() -> None:
    page = page_to("http://a/1", chain())
    assert await follow(page) is page
    share = Mock()
    walled = page_to("http://a/1", chain(cookies="ok=1"))
    walled.extraction.share = share  # type: ignore[union-attr]
    again = await follow(walled)
    assert isinstance(again, JobOutcome)
    assert (again.state, again.target, again.hops) == (JobState.READY, "http://a/1", 1)
    again.settle()
    share.release.assert_called_once()
    counted = page_to("http://a/1", chain(cookies="n=2"), replace(ANSWER, cookie_header="n=1"))
    assert await follow(counted) is counted


async def test_a_stored_page_leads_on_but_never_to_itself() -> None:
    page = visited().use(STORED)
    page.chain = chain(cookies="ok=1")
    page.extraction = leading_to("http://a/1")
    assert await follow(page) is page
    page.extraction = leading_to("http://a/2")
    assert (await follow(page)).target == "http://a/2"
