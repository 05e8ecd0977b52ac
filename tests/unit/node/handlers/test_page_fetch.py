"""Where a fetch ends before a page is there: robots.txt that is pending, guarded, or redirected to a guarded host."""

from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest

from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import JobKind, JobState, LeasedJob, Request
from crawl_engine.node.handlers.hop_rules import (
    ClaimTarget,
    EndRobotsRedirects,
    HopRule,
    KeepBody,
    LeaseAgain,
    StayOnSite,
)
from crawl_engine.node.handlers.obey_robots import ObeyRobots
from crawl_engine.node.handlers.page_fetch import Fetch, StartChain
from crawl_engine.node.handlers.robots_job import RobotsHandler
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.host_gate import HostBackingOff
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.named_hosts import NamedHosts, RedirectRule
from crawl_engine.node.requests.request_sender import Attempt
from crawl_engine.node.requests.robots_cache import RobotsGuarded, RobotsPending
from crawl_engine.settings import Settings
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.robots import RobotsResult, RobotsWanted
from crawl_engine.urls import QueryStripper
from tests.unit.node.leased_jobs import change, leased, visited

pytestmark = pytest.mark.asyncio
OUTCOMES = OutcomeBuilder(source="n1", max_attempts=3)
POST = leased(1)._replace(request=Request(method="POST", body="q=1"), target=None)


class Sender:
    """Gives these answers in turn; a FetchFailed or HostBackingOff is raised.

    `guarded` is what the guard says of `guarded_url`, or of all URLs.
    """

    def __init__(
        self, *answers: FetchResponse | Exception, guarded: FetchFailed | None = None, guarded_url: str = ""
    ) -> None:
        self.answers = list(answers)
        self.guarded = guarded
        self.guarded_url = guarded_url

    async def send(self, job: LeasedJob, attempt: Attempt, url: str, request: Request) -> FetchResponse:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def dismiss(self, job: LeasedJob) -> None:
        pass

    async def check_address(self, job: LeasedJob, url: str) -> None:
        if self.guarded is not None and self.guarded_url in ("", url):
            raise self.guarded


class Rules:
    """What the robots.txt of the host says, at each question in turn: None, or an error."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)

    async def find_refusal(self, host: int, version: int, url: str) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def redirect(status: int, target: str) -> FetchResponse:
    return FetchResponse(
        url="http://a/1", status=status, headers=(), body=b"", received=0, elapsed=0.0, content_type="",
        location=target, location_problem="", retry_after=None,
    )  # fmt: skip


async def visit(
    job: LeasedJob, sender: Sender, rules: Rules, stripper: QueryStripper | None = None
) -> VisitedPage | JobOutcome:
    """Run the stages from the start to the page, as those of a page, a sitemap or a robots.txt."""
    answers: Any = sender
    db_access = Mock(**{"stored_pages.return_value": (), "claim_target": AsyncMock(return_value=True)})
    obey_robots = ObeyRobots(cast(Any, rules), answers, OUTCOMES, Settings().max_attempts)
    rule = RedirectRule(Mock(spec=NamedHosts, **{"is_exempt.return_value": False, "may_be_target.return_value": False}))
    lease_again = LeaseAgain(OUTCOMES)
    hop_rules: tuple[HopRule, ...] = (
        StayOnSite(rule, OUTCOMES), KeepBody(db_access, OUTCOMES), lease_again,
        ClaimTarget(db_access, OUTCOMES), obey_robots,
    )  # fmt: skip
    stages: list[PageStage] = [StartChain(10, lambda _: stripper), obey_robots]
    if job.kind is JobKind.ROBOTS:
        hop_rules = EndRobotsRedirects(rule, OUTCOMES), lease_again
        stages = [StartChain(5)]
    revalidation = Mock(**{"find.return_value": None})
    page = visited()
    for stage in (*stages, Fetch(answers, revalidation, OUTCOMES, hop_rules)):
        result = await stage.run(job, page)
        if isinstance(result, JobOutcome):
            return result
        page = result
    return page


async def outcome(job: LeasedJob, sender: Sender, rules: Rules, stripper: QueryStripper | None = None) -> JobOutcome:
    result = await visit(job, sender, rules, stripper)
    assert isinstance(result, JobOutcome)
    return result


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("reason", ["robots", "backoff"])
async def test_a_post_that_was_redirected_and_must_wait_starts_again(status: int, reason: str) -> None:
    pending = reason == "robots"
    sender = Sender(redirect(status, "http://a/2"), HostBackingOff(5.0))
    given_back = await outcome(POST, sender, Rules(None, RobotsPending() if pending else None))
    assert (given_back.state, given_back.hops, given_back.target) == (JobState.READY, 0, None)
    assert given_back.effects == (() if pending else (Backoff(5.0),))


async def test_a_job_that_was_redirected_before_keeps_its_target() -> None:
    job = leased(1)._replace(target="http://a/9", hops=2)
    given_back = await outcome(job, Sender(), Rules(RobotsPending()))
    assert (given_back.hops, given_back.target) == (2, "http://a/9")


async def test_a_page_is_skipped_while_the_guard_refuses_its_host() -> None:
    refused = AddressRefused("a", 80, "10.0.0.1", "private")
    skipped = await outcome(leased(1), Sender(guarded=refused), Rules(RobotsGuarded()))
    assert (skipped.state, skipped.reason) == (JobState.SKIPPED, refused.reason)
    assert not skipped.find(RobotsWanted)


async def test_a_page_that_the_guard_no_longer_refuses_waits_for_robots_txt() -> None:
    given_back = await outcome(leased(1), Sender(), Rules(RobotsGuarded()))
    assert given_back.state is JobState.READY
    assert given_back.find(RobotsWanted)


async def test_a_page_is_skipped_while_the_guard_refuses_the_other_spelling_of_its_host() -> None:
    refused = AddressRefused("a", 80, "10.0.0.1", "private")
    sender = Sender(guarded=refused, guarded_url="http://a:80/")
    skipped = await outcome(leased(1)._replace(url="http://a./1"), sender, Rules(RobotsGuarded()))
    assert (skipped.state, skipped.reason) == (JobState.SKIPPED, refused.reason)


async def test_a_host_whose_address_changes_all_the_time_is_not_asked_for_ever() -> None:
    job, asked = leased(1), 0
    while (result := await outcome(job, Sender(), Rules(RobotsGuarded()))).state is JobState.READY:
        job, asked = job._replace(attempts=job.attempts + result.attempts), asked + 1
    assert (result.state, asked) == (JobState.FAILED, Settings().max_attempts)
    assert result.reason is not None
    assert "address" in result.reason


@pytest.mark.parametrize("target", ["http://169.254.169.254/robots.txt", "http://inside.example/robots.txt"])
async def test_a_robots_txt_that_leads_to_a_guarded_host_closes_its_own(target: str) -> None:
    job = leased(1)._replace(kind=JobKind.ROBOTS, url="http://a/robots.txt")
    if "169" in target:
        sender = Sender(redirect(302, target))
    else:  # the guard refuses it when the job continues there
        job = job._replace(target=target, hops=1)
        sender = Sender(AddressRefused("inside.example", 80, "10.0.0.1", "private"))
    fetch = Mock(run=AsyncMock(return_value=await visit(job, sender, Rules())))
    closed = await RobotsHandler(fetch, OUTCOMES, Mock(), "us").run(job, visited())
    assert closed.state is JobState.FAILED
    (robots,) = closed.find_all(RobotsResult)
    assert robots.status == 0
    assert robots.text.startswith("address ")


@pytest.mark.parametrize(
    ("kind", "target"),
    [(JobKind.PAGE, "http://a/2"), (JobKind.SITEMAP, "http://a/2"), (JobKind.ROBOTS, "http://a/2?sid=1")],
)
async def test_a_redirect_drops_query_keys_of_pages_and_sitemaps_alone(kind: JobKind, target: str) -> None:
    job = change(leased(1), kind=kind, delay=1.0)
    redirected = Sender(redirect(302, "http://a/2?sid=1"))
    result = await outcome(job, redirected, Rules(None), QueryStripper({"a": ["sid"]}))
    assert (result.state, result.target, result.hops) == (JobState.READY, target, 1)


async def test_a_job_that_is_leased_again_keeps_the_keys_that_its_site_insists_on() -> None:
    job = change(leased(1), target="http://a/2", hops=1, delay=1.0)
    stripper = QueryStripper({"a": ["sid"]})
    for target in ("http://a/2?sid=1", "http://a/1?sid=1"):
        result = await outcome(job, Sender(redirect(302, target)), Rules(None), stripper)
        assert (result.state, result.target, result.hops) == (JobState.READY, target, 2)
