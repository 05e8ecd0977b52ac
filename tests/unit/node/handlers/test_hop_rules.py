"""Each rule for redirects alone: it passes a hop on, or ends the fetch with a page or an outcome."""

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from crawl_engine.http.redirects import RedirectChain, RedirectRejected
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRule, LoginRule
from crawl_engine.model.job import HostPlan, JobKind, JobState, LeasedJob, Request, StoredPage
from crawl_engine.node.handlers.hop_rules import (
    ClaimTarget,
    EndRobotsRedirects,
    Hop,
    KeepBody,
    KeepLogin,
    LeaseAgain,
    StayOnSite,
    follow,
)
from crawl_engine.node.handlers.obey_robots import ObeyRobots
from crawl_engine.node.handlers.page_fetch import Fetch
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.robots_cache import Refusal, RobotsPending
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.logins import LoginNews
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
JOB = leased(1)
STORED = StoredPage(page=7, url="http://a/2", status=200, content_type="text/html", size=4, fetched_at=1.0)
POST = Request(method="POST", body="q=1")


def answer(status: int = 302, target: str | None = "http://a/2", **more: Any) -> FetchResponse:
    return FetchResponse(
        url="http://a/1", status=status, headers=(), body=b"", received=0, elapsed=0.0, content_type="",
        location=target, location_problem="redirect without a Location", retry_after=None, **more,
    )  # fmt: skip


def hop_to(target: str = "http://a/2", *, request: Request | None = None, is_loaded: bool = False) -> Hop:
    page = visited(chain=RedirectChain("http://a/1", request or Request(), limit=9))
    loaded = {"loaded_url": target} if is_loaded else {}
    hop = follow(page, answer(200 if is_loaded else 307, None if is_loaded else target, **loaded))
    assert hop is not None
    assert hop.is_loaded is is_loaded
    return hop


async def judge(rule: Any, hop: Hop, job: LeasedJob = JOB) -> Any:
    return await rule.judge(job, hop)


async def test_a_hop_is_a_redirect_or_where_a_loader_was_led() -> None:
    chain = RedirectChain("http://a/1", Request(), limit=9)
    page = visited(chain=chain)
    assert follow(page, answer(200, None)) is None
    assert follow(page, answer(302, refusal="a challenge")) is None
    hop = follow(page, answer(302))
    assert hop is not None
    assert (hop.from_url, chain.url, chain.hops, hop.problem) == ("http://a/1", "http://a/2", 1, None)
    back = follow(page, answer(302, "http://a/1"))
    assert back is not None
    assert str(back.problem) == "redirect loop"
    nowhere = follow(visited(chain=RedirectChain("http://a/1", Request(), limit=9)), answer(302, None))
    assert nowhere is not None
    assert str(nowhere.problem) == "redirect without a Location"


@pytest.mark.parametrize("is_loaded", [False, True], ids=["redirect", "loader"])
async def test_a_redirect_may_lead_where_the_rule_says(is_loaded: bool) -> None:
    rule = Mock(**{"refusal.return_value": None})
    stay, hop = StayOnSite(rule, OUTCOMES), hop_to("http://b/2", is_loaded=is_loaded)
    assert await judge(stay, hop) is None
    rule.refusal.return_value = "it leaves the site"
    refused = await judge(stay, hop)
    assert (refused.state, refused.reason, refused.hops) == (JobState.SKIPPED, "it leaves the site", 1)
    broken = await judge(stay, Hop(hop.page, "http://a/1", RedirectRejected("redirect loop"), hop.response))
    assert (broken.state, broken.reason) == (JobState.FAILED, "redirect loop")


async def test_redirects_may_still_lead_to_a_stored_page() -> None:
    rule, page = Mock(**{"refusal.return_value": None}), visited().use(STORED)
    assert await StayOnSite(rule, OUTCOMES).run(JOB, page) is page
    rule.refusal.return_value = "it leaves the site"
    refused = await StayOnSite(rule, OUTCOMES).run(JOB, page)
    assert isinstance(refused, JobOutcome)
    assert (refused.state, refused.reason) == (JobState.SKIPPED, "it leaves the site")


@pytest.mark.parametrize("is_loaded", [False, True], ids=["redirect", "loader"])
async def test_a_redirect_to_the_login_page_ends_the_login(is_loaded: bool) -> None:
    rule = LoginRule(url="/login", form={}, on_lost="pause")
    plan = HostPlan(host_key="a:80", rule=HostRule(name="a", login=rule))
    keep, job = KeepLogin(OUTCOMES), change(JOB, login_number=1, plan=plan)
    lost = await judge(keep, hop_to("http://a/login?next=1", is_loaded=is_loaded), job)
    assert (lost.state, lost.find(LoginNews)) == (JobState.READY, LoginNews("pause"))
    assert await judge(keep, hop_to("http://a/2", is_loaded=is_loaded), job) is None
    assert await judge(keep, hop_to("http://a/login"), JOB) is None, "its pages need no login"


async def test_a_body_is_repeated_only_on_its_host_and_within_the_page_limit() -> None:
    db_access = Mock(reserve_request=AsyncMock(return_value=True))
    keep, counted = KeepBody(db_access, OUTCOMES), hop_to(request=POST)
    assert await judge(keep, hop_to("http://b/2")) is None
    failed = await judge(keep, hop_to("http://b/2", request=POST))
    assert (failed.state, "repeat the request's body" in failed.reason) == (JobState.FAILED, True)
    assert await judge(keep, counted, change(JOB, limits=("group",))) is None
    assert counted.page.attempt.reserved == 1
    db_access.reserve_request.return_value = False
    limited = await judge(keep, hop_to(request=POST), change(JOB, limits=("group",)))
    assert (limited.state, limited.target) == (JobState.READY, None)


@pytest.mark.parametrize(
    ("target", "terms", "loaded", "leased_again"),
    [
        ("http://a/2", {}, False, False),
        ("http://a/2", {"delay": 1.0}, False, True),
        ("http://a/2", {"limits": ("run",)}, False, True),
        ("http://b/2", {}, False, True),
        ("http://b/2", {}, True, True),
        ("http://a/2", {"delay": 1.0}, True, False),
    ],
)
async def test_the_lease_decides_on_other_hosts_delays_and_limits(
    target: str, terms: dict[str, Any], loaded: bool, leased_again: bool
) -> None:
    outcome = await judge(LeaseAgain(OUTCOMES), hop_to(target, is_loaded=loaded), change(JOB, **terms))
    if not leased_again:
        assert outcome is None
        return
    host = ("b:80", "http://b") if "b" in target else None
    assert (outcome.state, outcome.hops, outcome.target, outcome.next_host) == (JobState.READY, 1, target, host)


async def test_a_repeated_body_is_not_leased_again() -> None:
    assert await judge(LeaseAgain(OUTCOMES), hop_to(request=POST), change(JOB, delay=1.0)) is None


async def test_a_target_is_claimed_and_a_stored_one_is_used() -> None:
    db_access = Mock(claim_target=AsyncMock(return_value=True), **{"stored_pages.return_value": ()})
    claim = ClaimTarget(db_access, OUTCOMES)
    assert await judge(claim, hop_to()) is None
    db_access.stored_pages.return_value = [STORED]
    page = await judge(claim, hop_to())
    assert (page.stored, page.hops, page.target, page.answer) == (STORED, 1, "http://a/2", (200, "stored"))
    assert await judge(claim, hop_to(is_loaded=True)) is None
    db_access.claim_target.return_value = False
    taken = await judge(claim, hop_to())
    assert (taken.state, taken.target) == (JobState.READY, "http://a/2")


async def test_the_robots_txt_of_a_target_is_obeyed() -> None:
    cache = Mock(find_refusal=AsyncMock(return_value=None))
    obey = ObeyRobots(cache, Mock(), OUTCOMES, 3)
    assert await judge(obey, hop_to()) is None
    for by_rule, state in ((True, JobState.SKIPPED), (False, JobState.FAILED)):
        cache.find_refusal.return_value = Refusal("no", by_rule=by_rule)
        refused = await judge(obey, hop_to())
        assert (refused.state, refused.reason, refused.hops) == (state, "no", 1)
    cache.find_refusal.side_effect = RobotsPending
    assert (await judge(obey, hop_to())).target == "http://a/2"


async def test_a_robots_txt_that_leads_nowhere_is_answered_by_its_redirect() -> None:
    rule = Mock(**{"refusal.return_value": None, "guard_refusal.return_value": None})
    end, job = EndRobotsRedirects(rule, OUTCOMES), change(JOB, kind=JobKind.ROBOTS)
    hop = hop_to("http://b/robots.txt")
    assert await judge(end, hop, job) is None
    broken = await judge(end, Hop(hop.page, "http://a/1", RedirectRejected("redirect loop"), hop.response), job)
    assert (broken.status, broken.response) == (307, hop.response)
    rule.refusal.return_value = "it leaves the site"
    assert (await judge(end, hop, job)).status == 307
    rule.guard_refusal.return_value = "address 10.0.0.1 is private"
    assert (await judge(end, hop, job)).state is JobState.FAILED


async def test_a_loaded_page_comes_after_the_rules_and_a_redirect_after_a_request() -> None:
    passed = Mock(judge=AsyncMock(return_value=None))
    page_answer = answer(200, None)
    sender = Mock(send=AsyncMock(side_effect=[answer(302, "http://a/2"), page_answer]))
    revalidation = Mock(**{"find.return_value": None})
    chain = RedirectChain("http://a/1", Request(), limit=9)
    page = await Fetch(sender, revalidation, OUTCOMES, (passed,)).run(JOB, visited(chain=chain))
    assert isinstance(page, VisitedPage)
    assert (page.response, page.target, passed.judge.await_count) == (page_answer, "http://a/2", 1)

    loaded = answer(200, None, loaded_url="http://a/3")
    sender = Mock(send=AsyncMock(side_effect=[loaded]))
    page = await Fetch(sender, revalidation, OUTCOMES, (passed,)).run(JOB, visited(chain=chain))
    assert isinstance(page, VisitedPage)
    assert (page.response, page.target, passed.judge.await_count) == (loaded, "http://a/3", 2)
    sender.dismiss.assert_called_once_with(JOB)
