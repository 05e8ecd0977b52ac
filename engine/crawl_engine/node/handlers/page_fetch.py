"""The stages up to the page: its redirects so far, its login, its host's turn, and the requests."""

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.redirects import RedirectChain, build_target_request
from crawl_engine.model.job import HostPlan, JobState, LeasedJob, Request, document_key
from crawl_engine.model.retry_policy import NOT_MODIFIED
from crawl_engine.node.db_access import DbAccess, RequestLimitReached
from crawl_engine.node.handlers.freshness import Revalidation
from crawl_engine.node.handlers.hop_rules import HopRule, follow
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage, describe_answer
from crawl_engine.node.host_gate import HostBackingOff
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.request_sender import RequestSender
from crawl_engine.store.pages.documents import CheckedDocument
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.urls import QueryStripper


class StartChain(PageStage, frozen=True):
    """Begins with the job's own request, or with the redirect at which it was put back."""

    max_redirects: int
    find_stripper: Callable[[int], QueryStripper | None] = lambda _: None
    """Of a version of the defs: it drops query keys of targets."""
    find_cookies: Callable[[LeasedJob, str, Request], str] = lambda *_: ""
    """The cookies that a request would have now."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage:
        url, request, hops = job.url, job.request, job.hops
        earlier: dict[bytes, str] = {}
        if job.target:
            hops = hops or 1  # its node died when it had claimed the target
            key = document_key(url, request.method, request.body, request.variant)
            # what an earlier lease sent is not known; a page that set a cookie and led on must be asked again once
            earlier[key] = "" if hops == 1 else self.find_cookies(job, url, request)
            url, request = job.target, build_target_request(request, url, job.target)
        page.chain = RedirectChain(
            url, request, limit=self.max_redirects, hops=hops, earlier=earlier,
            query_stripper=self.find_stripper(job.defs_version), find_cookies=partial(self.find_cookies, job),
        )  # fmt: skip
        return page


class FailGivenUp(PageStage, frozen=True):
    """Ends jobs whose host was given up."""

    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if not job.terms.given_up:
            return page
        return self.outcomes.ended(job, JobState.FAILED, "blocked: the host refuses", job.target or job.url)


class NeedLogin(PageStage, frozen=True):
    """Ends jobs whose host refused the login."""

    db_access: DbAccess
    outcomes: OutcomeBuilder

    def applies(self, plan: HostPlan) -> bool:
        return plan.rule.login is not None

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if not job.terms.login_failed:
            return page
        reason = f"the login to its host failed: {self.db_access.login_failure(job.host)}"
        return self.outcomes.ended(job, JobState.FAILED, reason, job.url)


class WaitForTurn(PageStage, frozen=True):
    """Waits until the job may send its first request, or gives it back."""

    sender: RequestSender

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        given_back = await self.sender.admit(job)
        if given_back is not None:
            return given_back
        if self.sender.renders(job):
            page.attempt.on_send = page.started
        else:
            page.started()
        return page


class Fetch(PageStage, frozen=True):
    """Sends the request of the job, and those of its redirects that the rules let it follow now."""

    sender: RequestSender
    revalidation: Revalidation
    outcomes: OutcomeBuilder
    hop_rules: tuple[HopRule, ...]

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        chain = page.chain
        assert chain is not None
        try:
            return await self._send(job, page, chain)
        except HostBackingOff as backoff:
            return self.outcomes.given_back(job, chain).add(Backoff(backoff.until))
        except RequestLimitReached:
            return self.outcomes.given_back(job, chain)  # when a limit is lifted
        except FetchFailed as failure:
            return self.outcomes.fetch_failed(job, chain.url, failure)
        finally:
            self.sender.dismiss(job)

    async def _send(self, job: LeasedJob, page: VisitedPage, chain: RedirectChain) -> VisitedPage | JobOutcome:
        while True:
            before = self.revalidation.find(job, chain)
            request = chain.request if before is None else before.add_conditions(chain.request)
            response = await self.sender.send(job, page.attempt, chain.url, request)
            hop = follow(page, response)
            if hop is None:
                break
            for rule in self.hop_rules:
                ended = await rule.judge(job, hop)
                if ended is not None:
                    return ended
            if hop.is_loaded:
                return page.arrive(response)
        if before is None or not before.conditions or response.status != NOT_MODIFIED:
            return page.arrive(response, before)
        after, headers = self.revalidation.recrawl_after(job, before, None), before.changed_headers(response.headers)
        page.checked = CheckedDocument(before.stored.page, time.time(), after, tuple(chain.keys[:-1]), headers)
        stored = before.stored if headers is None else replace(before.stored, headers=headers)
        page.use(stored).answer = describe_answer(response)
        return page
