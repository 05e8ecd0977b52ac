"""The rules for one redirect of a job: each passes it on to the next rule, or ends the fetch."""

from typing import Protocol

from msgspec import Struct

from crawl_engine import urls
from crawl_engine.http.redirects import RedirectChain, RedirectRejected
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.job import JobState, LeasedJob, ReasonCode
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.handlers.freshness import may_serve
from crawl_engine.node.handlers.login_page import leads_to_login
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.named_hosts import RedirectRule
from crawl_engine.store.tables.outcome import JobOutcome

_BODY_REDIRECTED = "redirect to another host that would repeat the request's body there; use its target as the URL"


class Hop(Struct, frozen=True):
    """One redirect of a page, whose target is where its chain is now."""

    page: VisitedPage
    from_url: str
    problem: RedirectRejected | None = None
    """Why it cannot be followed; the chain may be where it was."""
    response: FetchResponse | None = None
    """None: the page leads there by itself."""
    is_loaded: bool = False
    """Whether a plugin loader has followed it: the response is the page at the target."""

    @property
    def chain(self) -> RedirectChain:
        assert self.page.chain is not None
        return self.page.chain

    @property
    def leaves_host(self) -> bool:
        return urls.host_key(self.from_url) != urls.host_key(self.chain.url)


def follow(page: VisitedPage, response: FetchResponse) -> Hop | None:
    """Move the chain of a page to where a response leads; None: nowhere else. Raises FetchFailed as `chain.follow`."""
    if response.refusal is not None:
        return None
    is_loaded = classify_status(response.status) != "redirect"
    if is_loaded and response.loaded_url is None:
        return None
    chain = page.chain
    assert chain is not None
    from_url, problem = chain.url, None
    try:
        if response.loaded_url is not None and is_loaded:
            chain.follow(response.loaded_url, cookie_header=response.cookie_header)
        else:
            chain.advance(response)
    except RedirectRejected as rejected:
        problem = rejected
    return Hop(page, from_url, problem, response, is_loaded)


class HopRule(Protocol):
    """One rule for redirects, the same for all jobs of a node. The pipeline lists the rules of each kind of job."""

    async def judge(self, job: LeasedJob, hop: Hop) -> VisitedPage | JobOutcome | None:
        """The page or the outcome that ends the fetch; None: the next rule decides, after the last one a request."""


class StayOnSite(PageStage, frozen=True):
    """Follows redirects on the site, to hosts that the defs name, or to any public host if the job may leave."""

    redirect_rule: RedirectRule
    outcomes: OutcomeBuilder

    async def judge(self, job: LeasedJob, hop: Hop) -> JobOutcome | None:
        if hop.problem is not None:
            return self.outcomes.ended(job, JobState.FAILED, str(hop.problem), hop.chain.url, hops=hop.chain.hops)
        return self._refuse(job, hop.from_url, hop.chain.url, hop.chain.hops)

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        """As a stage, for the redirects that once led to a stored page."""
        return self._refuse(job, job.url, page.url) or page

    def _refuse(self, job: LeasedJob, from_url: str, url: str, hops: int = 0) -> JobOutcome | None:
        refusal = self.redirect_rule.refusal(job, from_url, url)
        if refusal is None:
            return None
        code = None if self.redirect_rule.guard_refusal(job, url) is None else ReasonCode.ADDRESS
        return self.outcomes.ended(job, JobState.SKIPPED, refusal, url, hops=hops, code=code)


class KeepLogin(Struct, frozen=True):
    """Takes a redirect to the login page as the end of the login."""

    outcomes: OutcomeBuilder

    async def judge(self, job: LeasedJob, hop: Hop) -> JobOutcome | None:
        rule = job.login
        if rule is None or not leads_to_login(job, rule, hop.from_url, hop.chain.url):
            return None
        return self.outcomes.logged_out(job, hop.chain.url, "redirected to the login page", rule.on_lost)


class KeepBody(Struct, frozen=True):
    """Has a body repeated only on its host. It cannot be leased again: the sender has it wait for its turn."""

    db_access: DbAccess
    outcomes: OutcomeBuilder

    async def judge(self, job: LeasedJob, hop: Hop) -> JobOutcome | None:
        if hop.chain.request.is_plain_get:
            return None
        if hop.leaves_host:
            return self.outcomes.ended(job, JobState.FAILED, _BODY_REDIRECTED, hop.from_url, hops=hop.chain.hops)
        if hop.is_loaded or await hop.page.attempt.reserve(job, self.db_access):
            return None
        return JobOutcome(job=job, state=JobState.READY)  # it starts again where a limit is lifted


class LeaseAgain(Struct, frozen=True):
    """Puts the job back where the lease decides on its next request: another host, a delay, a page limit."""

    outcomes: OutcomeBuilder
    always: bool = False

    async def judge(self, job: LeasedJob, hop: Hop) -> JobOutcome | None:
        is_limited = self.always or job.terms.delay > 0 or bool(job.terms.limits)
        if not hop.leaves_host and (not is_limited or hop.is_loaded or not hop.chain.request.is_plain_get):
            return None
        outcome = self.outcomes.given_back(job, hop.chain)
        if hop.leaves_host:
            outcome.next_host = urls.host_key(hop.chain.url), urls.origin(hop.chain.url)
        return outcome


class ClaimTarget(Struct, frozen=True):
    """Puts the job back while another one fetches the target, and uses a document that another one stored."""

    db_access: DbAccess
    outcomes: OutcomeBuilder

    async def judge(self, job: LeasedJob, hop: Hop) -> VisitedPage | JobOutcome | None:
        if hop.is_loaded:
            return None
        if hop.chain.request.is_plain_get and not await self.db_access.claim_target(job, hop.chain.url):
            return self.outcomes.given_back(job, hop.chain)
        found = self.db_access.stored_pages(job.run, hop.chain.keys[-1])
        served = [stored for stored in found if may_serve(job, stored, self.db_access.is_own_document)]
        return hop.page.use(served[-1]) if served else None


class EndRobotsRedirects(Struct, frozen=True):
    """A robots.txt whose redirects lead nowhere does not exist; one that leads to a guarded address closes its host."""

    redirect_rule: RedirectRule
    outcomes: OutcomeBuilder

    async def judge(self, job: LeasedJob, hop: Hop) -> VisitedPage | JobOutcome | None:
        refusal = None if hop.problem else self.redirect_rule.refusal(job, hop.from_url, hop.chain.url)
        if hop.response is None or (hop.problem is None and refusal is None):
            return None
        if refusal is not None and self.redirect_rule.guard_refusal(job, hop.chain.url) is not None:
            return self.outcomes.ended(job, JobState.FAILED, refusal, hop.chain.url, hops=hop.chain.hops)
        return hop.page.arrive(hop.response)
