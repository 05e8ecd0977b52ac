"""Each stage of a page alone: it gives the page to the next stage, or the outcome that ends the job."""

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec.structs import replace

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.redirects import RedirectChain, RedirectRejected
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import JobKind, JobState, LeasedJob, Request, StoredPage
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.freshness import StoredVersion
from crawl_engine.node.handlers.page_fetch import Fetch, NeedLogin, StartChain, WaitForTurn
from crawl_engine.node.handlers.page_stages import (
    Extract,
    Finish,
    HoldFiles,
    JudgeStatus,
    ReadBody,
)
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.request_sender import Attempt
from crawl_engine.node.rules import RulesOfPlans
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import CheckedDocument, NewDocument
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.transactions.supersede import OldRows
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
RULES = RulesOfPlans(Settings())
JOB = leased(1)
EXTRACT = change(JOB, kind=JobKind.EXTRACT, page_job=42)
STORED = StoredPage(page=7, url="http://a/1", status=200, content_type="text/html", size=4, fetched_at=1.0)
CONTENT = StoredBody(Body(b"text"), ())


def answer(status: int = 200, *, refusal: str | None = None) -> FetchResponse:
    return FetchResponse(
        url="http://a/1", status=status, headers=(), body=b"text", received=4, elapsed=0.012, content_type="text/html",
        location=None, location_problem="", retry_after=None, refusal=refusal,
    )  # fmt: skip


def start() -> RedirectChain:
    return RedirectChain("http://a/1", Request(), limit=9)


def page_of(status: int = 200, *, refusal: str | None = None) -> VisitedPage:
    return visited(chain=start()).arrive(answer(status, refusal=refusal))


def extraction() -> PageExtraction:
    result = PageResult(page_kind="html", rows=((0, ("{}",)),))
    return PageExtraction(result, [Mock(data_def="d", id=1)])


def fetch(response: FetchResponse, *rules: Any, before: Any = None) -> Fetch:
    sender = Mock(send=AsyncMock(return_value=response))
    revalidation = Mock(**{"find.return_value": before, "recrawl_after.return_value": 60.0})
    return Fetch(sender, revalidation, OUTCOMES, rules)


async def run(stage: Any, page: VisitedPage, job: LeasedJob = JOB) -> Any:
    return await stage.run(job, page)


async def test_a_page_is_fetched_from_where_its_job_is() -> None:
    begun = await run(StartChain(9), visited())
    assert (begun.chain.url, begun.chain.hops, len(begun.chain.keys)) == ("http://a/1", 0, 1)
    moved = await run(StartChain(9), visited(), JOB._replace(target="http://a/2", hops=2))
    assert (moved.chain.url, moved.chain.hops, len(moved.chain.keys)) == ("http://a/2", 2, 2)
    page = await run(fetch(answer(404)), visited(chain=start()))
    assert (page.status, page.url, page.answer, page.target) == (404, "http://a/1", (404, "12 ms"), None)


async def test_a_page_that_set_a_cookie_and_led_on_is_asked_again_once_the_next_one_leads_back() -> None:
    stage = StartChain(9, find_cookies=lambda *_: "ok=1")
    next_page = JOB._replace(target="http://a/2", hops=1)
    chain = (await stage.run(next_page, visited())).chain
    assert chain is not None
    chain.follow("http://a/1")
    chain = (await stage.run(next_page._replace(hops=3), visited())).chain
    assert chain is not None
    with pytest.raises(RedirectRejected, match="redirect loop"):
        chain.follow("http://a/1")


async def test_an_unchanged_page_is_its_stored_version_and_is_checked() -> None:
    before = StoredVersion(STORED, b"", (("etag", '"1"'),), (("If-None-Match", '"1"'),))
    page = await run(fetch(answer(304), before=before), visited(chain=start()))
    assert (page.stored, page.answer) == (STORED, (304, "12 ms"))
    assert page.checked.headers is None
    outcome = page.complete(JobOutcome(job=JOB, state=JobState.DONE))
    assert [type(effect) for effect in outcome.effects] == [CheckedDocument]
    assert (outcome.attempts, page.checked.recrawl_after) == (1, 60.0)


async def test_an_unchanged_page_has_the_headers_of_its_last_answer() -> None:
    before = StoredVersion(STORED, b"", (("etag", '"1"'),), (("If-None-Match", '"1"'),))
    response = answer(304)
    response.headers = (("etag", '"2"'),)
    page = await run(fetch(response, before=before), visited(chain=start()))
    assert page.checked.headers == page.stored.headers == (("etag", '"2"'),)
    read = await ReadBody(AsyncMock(**{"page_body.return_value": CONTENT}), OUTCOMES).run(JOB, page)
    assert isinstance(read, VisitedPage)
    assert read.content == CONTENT._replace(headers=(("etag", '"2"'),))


async def test_a_job_whose_host_refused_the_login_fails_without_a_request() -> None:
    stage = NeedLogin(Mock(**{"login_failure.return_value": "wrong password"}), OUTCOMES)
    page = visited()
    assert await run(stage, page) is page
    failed = await run(stage, page, change(JOB, login_failed=True))
    assert (failed.state, failed.reason) == (JobState.FAILED, "the login to its host failed: wrong password")


async def test_a_job_starts_in_its_turn_or_is_given_back() -> None:
    started = Mock()
    page = visited(started=started)
    given_back = JobOutcome(job=JOB, state=JobState.READY)
    assert await run(WaitForTurn(Mock(admit=AsyncMock(return_value=given_back))), page) is given_back
    started.assert_not_called()
    admitted = Mock(admit=AsyncMock(return_value=None), **{"renders.return_value": True})
    assert await run(WaitForTurn(admitted), page) is page
    started.assert_not_called()
    page.attempt.on_send()
    started.assert_called_once_with()
    admitted.renders.return_value = False
    assert await run(WaitForTurn(admitted), page) is page
    assert started.call_count == 2


def judge() -> JudgeStatus:
    return JudgeStatus(Mock(**{"recrawl_after.return_value": None}), OUTCOMES)


async def test_a_job_that_uses_the_stored_page_of_its_target_keeps_the_target() -> None:
    job = change(JOB, target="http://a/gone", stored=STORED)
    page = visited(stored=STORED, content=CONTENT)
    assert page.complete(JobOutcome(job=job, state=JobState.DONE)).target == "http://a/gone"
    assert page.complete(JobOutcome(job=JOB, state=JobState.DONE)).target is None


@pytest.mark.parametrize(
    ("status", "state", "effects", "attempts"),
    [
        (204, JobState.SKIPPED, [NewDocument], 1),
        (404, JobState.SKIPPED, [NewDocument, HostFailure], 1),
        (401, JobState.FAILED, [HostFailure, NewDocument], 1),
        (500, JobState.READY, [HostFailure], 1),
    ],
)
async def test_a_status_ends_the_job(status: int, state: JobState, effects: list[type], attempts: int) -> None:
    outcome = await run(judge(), page_of(status))
    kinds = [type(effect) for effect in outcome.effects[1:]]
    assert (outcome.state, set(kinds), outcome.attempts) == (state, set(effects), attempts)
    stored = await run(judge(), visited(stored=STORED, url="http://a/1", status=status))
    assert (stored.state, stored.attempts) == (state if state is JobState.SKIPPED else JobState.FAILED, 0)


async def test_a_page_with_content_goes_on_with_its_document() -> None:
    page = await run(judge(), page_of())
    assert page.document.url == "http://a/1"
    assert page.content.body.read() == b"text"
    refused = await run(judge(), page_of(refusal="HTTP 403"))
    assert (refused.state, refused.stats.blocked) == (JobState.READY, True)


async def test_the_first_answer_of_each_refusal_is_kept_up_to_64_kb() -> None:
    stage = judge()

    async def kept(refusal: str, job: LeasedJob = JOB) -> NewDocument | None:
        page = page_of(403, refusal=refusal)
        page.response.body = b"x" * 100_000
        return (await run(stage, page, job)).find(NewDocument)

    first = await kept("HTTP 403")
    assert (first.keys, first.body.size, first.status) == ((), 65_536, 403)
    assert await kept("HTTP 403") is None
    assert await kept("challenge (cf-mitigated: challenge)") is not None
    assert await kept("HTTP 403", change(JOB, host=JOB.host + 1)) is not None


@pytest.mark.parametrize("job", [JOB, EXTRACT], ids=["page", "re-extraction"])
async def test_a_stored_body_is_read_within_the_budget(job: LeasedJob) -> None:
    budget = ByteBudget(capacity=2_000_000, largest=1_000_000)
    attempt = Attempt(1, budget.open_share())
    stage = ReadBody(AsyncMock(**{"page_body.return_value": CONTENT}), OUTCOMES)
    page = await run(stage, VisitedPage(attempt=attempt).use(replace(STORED, size=500_000)), job)
    assert page.content == CONTENT
    assert budget.used > 400_000
    outcome = page.complete(JobOutcome(job=job, state=JobState.DONE))
    assert outcome.page == (7 if job is JOB else None)
    missing = await run(stage, visited(), job)
    assert (missing.state, missing.reason) == (JobState.FAILED, "its stored page is missing")
    stage = replace(stage, db_access=AsyncMock(**{"page_body.return_value": None}))
    deleted = await run(stage, visited().use(replace(STORED, size=1)), job)
    assert (deleted.state, deleted.find(HostFailure)) == (JobState.READY if job is JOB else JobState.FAILED, None)


@pytest.mark.parametrize(
    ("job", "error", "state", "keeps"),
    [
        (JOB, UnsupportedContent("image/png"), JobState.SKIPPED, False),
        (JOB, UnreadablePage("too deep"), JobState.FAILED, False),
        (EXTRACT, UnsupportedContent("image/png"), JobState.FAILED, True),
        (EXTRACT, UnreadablePage("too deep"), JobState.FAILED, True),
    ],
)
async def test_a_page_that_cannot_be_extracted(job: LeasedJob, error: Exception, state: JobState, keeps: bool) -> None:
    extractor = Mock(extract=AsyncMock(side_effect=error))
    outcome = await run(Extract(extractor, OUTCOMES, RULES), visited(url="http://a/1", content=CONTENT), job)
    assert outcome.state is state
    assert ("it keeps its old rows" in outcome.effects[0].text) is keeps
    assert not outcome.find(OldRows)


async def test_an_extraction_goes_on_and_a_re_extraction_replaces_rows() -> None:
    extractor = Mock(extract=AsyncMock(return_value=extraction()), **{"unchanged_data_defs.return_value": (9,)})
    page = await run(Extract(extractor, OUTCOMES, RULES), visited(content=CONTENT))
    assert (len(page.extraction.result.rows), page.effects) == (1, ())
    again = await run(Extract(extractor, OUTCOMES, RULES), visited(content=CONTENT), EXTRACT)
    assert again.effects == (OldRows((9,)),)


async def test_the_last_stage_gives_what_was_extracted() -> None:
    hold = AsyncMock()
    page = await run(HoldFiles(Mock(hold=hold)), visited(content=CONTENT, stored=STORED, extraction=extraction()))
    hold.assert_awaited_once()
    outcome = await run(Finish(OUTCOMES, Settings()), page)
    assert (outcome.state, outcome.page, len(outcome.find_all(NewRows))) == (JobState.DONE, 7, 1)
