"""Reads a host's robots.txt for its job; until it is read, the host's pages wait."""

import time

from crawl_engine import urls
from crawl_engine.http.redirects import RedirectChain
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.robots_request import robots_text
from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.robots_cache import RobotsCache
from crawl_engine.robots.content_signal import read_content_signal
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.robots import RobotsResult

_NOTABLE_CRAWL_DELAY = 30.0


class RobotsHandler(PageStage, frozen=True):
    """One for each node."""

    fetch: PageStage
    outcomes: OutcomeBuilder
    robots_cache: RobotsCache
    agent: str
    """The product token that selects the rules."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        """Fetch a robots.txt; a failure is retried like that of a page."""
        fetched = await self.fetch.run(job, page)
        if isinstance(fetched, JobOutcome):
            if fetched.state is JobState.SKIPPED and job.target is not None:
                fetched.state = JobState.FAILED  # a redirect led to a guarded address; the host's own is not guarded
            return self._close_host(fetched, 0) if fetched.state is JobState.FAILED else fetched
        assert fetched.response is not None and fetched.chain is not None, "only pages are stored"
        return await self._outcome(job, fetched.response, fetched.chain)

    async def _outcome(self, job: LeasedJob, response: FetchResponse, chain: RedirectChain) -> JobOutcome:
        if response.exceeds_rate or classify_status(response.status) == "retry":
            outcome = self.outcomes.retry_status(job, chain.url, response)
            return self._close_host(outcome, response.status) if outcome.state is JobState.FAILED else outcome
        text = robots_text(response)
        robots, fetched_at = await self.robots_cache.parse(response.status, text), time.time()
        if not robots.readable:  # its rules take longer than `parse_limit`
            failed = self.outcomes.ended(job, JobState.FAILED, robots.problem, chain.url, hops=chain.hops)
            return self._close_host(failed, 0)
        if job.target is None:  # otherwise its own host is not the leased one
            self.robots_cache.remember(job.host, robots, text, fetched_at)
        asked, delay = robots.crawl_delay, robots.delay
        events = [self.outcomes.event(job, "INFO", f"{response.status} {urls.without_credentials(chain.url)}")]
        if delay > _NOTABLE_CRAWL_DELAY:
            note = f"{job.url} asks for {asked:g} s between two requests" + (
                f"; {delay:g} s are kept" if delay < asked else ""
            )
            events.append(self.outcomes.event(job, "WARNING", note, "host"))
        signal = read_content_signal(text, self.agent)
        result = RobotsResult(response.status, text, delay, self.agent, fetched_at, signal)
        return JobOutcome(
            job=job, state=JobState.DONE, attempts=1, hops=chain.hops, target=job.target, effects=(result, *events)
        )  # fmt: skip

    def _close_host(self, outcome: JobOutcome, status: int) -> JobOutcome:
        """End the last attempt: no page of the host is fetched, or the last copy stays in force."""
        job, reason = outcome.job, outcome.reason or ""
        text = f"{job.url}: {reason}; no page of this host is fetched without it, unless an earlier copy allows it"
        outcome.remove(Event)
        return outcome.add(
            RobotsResult(status, reason, 0.0, self.agent), self.outcomes.event(job, "WARNING", text, "host")
        )
