"""Asks the robots.txt of a host whether a URL may be fetched now."""

from crawl_engine import urls
from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.redirects import RedirectChain
from crawl_engine.http.request import expand_url
from crawl_engine.model.job import JobState, LeasedJob, ReasonCode
from crawl_engine.node.handlers.hop_rules import Hop
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.request_sender import RequestSender
from crawl_engine.node.requests.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions.robots import RobotsWanted

_UNSTABLE_ADDRESS = "the address guard refused its robots.txt again and again: the addresses of its host change"


class ObeyRobots(PageStage, frozen=True):
    """A stage before the first request, and a rule for each redirect.

    The job is SKIPPED if a rule disallows its URL, FAILED if the robots.txt cannot be read, READY until it is read.
    """

    robots_cache: RobotsCache
    sender: RequestSender
    outcomes: OutcomeBuilder
    max_attempts: int

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        assert page.chain is not None
        return await self._refuse(job, page.chain) or page

    async def judge(self, job: LeasedJob, hop: Hop) -> JobOutcome | None:
        return await self._refuse(job, hop.chain)

    async def _refuse(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome | None:
        try:
            url = expand_url(chain.url) if job.is_written(chain.url) else chain.url
            refusal = await self.robots_cache.find_refusal(job.host, job.defs_version, url)
        except FetchFailed as failure:
            return self.outcomes.fetch_failed(job, chain.url, failure)
        except RobotsPending:
            return self.outcomes.given_back(job, chain)
        except RobotsGuarded:
            return await self._ask_first(job, chain)
        if refusal is None:
            return None
        state = JobState.SKIPPED if refusal.by_rule else JobState.FAILED
        return self.outcomes.ended(job, state, refusal.reason, chain.url, hops=chain.hops, code=ReasonCode.ROBOTS)

    async def _ask_first(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome:
        """The address guard refused the host before: SKIPPED if it still does, else READY after its robots.txt.

        FAILED if that happened too often: the addresses of the host change.
        """
        scheme, host_key = chain.url.partition("://")[0], urls.host_key(chain.url)
        try:
            # and its other spelling: a host name with a trailing dot is the same host, and may have another address
            for url in dict.fromkeys((chain.url, f"{scheme}://{host_key}/")):
                await self.sender.check_address(job, url)
        except AddressRefused as refused:
            return self.outcomes.fetch_failed(job, chain.url, refused)
        if job.attempts >= self.max_attempts:
            return self.outcomes.ended(job, JobState.FAILED, _UNSTABLE_ADDRESS, chain.url, hops=chain.hops)
        outcome = self.outcomes.given_back(job, chain)
        outcome.attempts = 1
        return outcome.add(RobotsWanted())
