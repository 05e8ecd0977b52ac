"""Fetches a page: obeys robots.txt and follows redirects, or hands the job to the next host's clock."""

from dataclasses import dataclass

from engine import urls
from engine.fetch.errors import FetchFailed
from engine.fetch.redirect_chain import RedirectChain, RedirectRejected
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import classify_status
from engine.model.job import JobState, LeasedJob, StoredPage
from engine.model.job_key import document_key
from engine.node.db_access import DbAccess
from engine.node.host_gate import HostBackingOff
from engine.node.outcomes import OutcomeBuilder
from engine.node.request_sender import RequestSender, give_back
from engine.node.robots_job import RobotsHandler
from engine.settings import Settings
from engine.store.transactions.outcome import JobOutcome


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The final response of a page's fetch, and the hops that led to it."""

    chain: RedirectChain
    response: FetchResponse


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """A redirect led to a page that this run has stored already."""

    stored: StoredPage
    chain: RedirectChain


class PageFetcher:
    """One for each node."""

    def __init__(
        self,
        *,
        settings: Settings,
        sender: RequestSender,
        db_access: DbAccess,
        robots_handler: RobotsHandler,
        outcomes: OutcomeBuilder,
    ) -> None:
        self._settings = settings
        self._sender = sender
        self._db_access = db_access
        self._robots_handler = robots_handler
        self._outcomes = outcomes

    async def fetch(self, job: LeasedJob) -> FetchedPage | StoredTarget | JobOutcome:
        """Fetch a page; an outcome where the job ends, is retried, or continues under another host's clock.

        Redirects that stay on a host without delay are followed at once; others are leased again, as are those of a job
        with a page limit, because the lease counts the next request.
        """
        chain = self._start_chain(job)
        while True:
            refusal = self._robots_refusal(job, chain.url)
            if refusal is not None:
                return self._outcomes.ended(job, JobState.SKIPPED, refusal, chain.url, hops=chain.hops)
            previous_url = chain.url
            try:
                response = await self._sender.send(job, chain.url, chain.request)
                if classify_status(response.status) != "redirect":
                    return FetchedPage(chain, response)
                chain.advance(response)
            except HostBackingOff as backoff:
                if chain.request.is_plain_get and chain.hops:
                    return give_back(job, backoff, hops=chain.hops, target=chain.url)
                return give_back(job, backoff)
            except FetchFailed as failure:
                return self._outcomes.fetch_failed(job, chain.url, failure)
            except RedirectRejected as rejected:
                return self._outcomes.ended(job, JobState.FAILED, str(rejected), chain.url, hops=chain.hops)
            other_host = urls.host_key(previous_url) != urls.host_key(chain.url)
            if not chain.request.is_plain_get:
                if job.reserved and not await self._db_access.reserve_request(job):
                    return JobOutcome(job=job, state=JobState.READY)  # it starts again where a limit is lifted
                # a request that repeats its body cannot be leased again: the sender has it wait for its turn
                if job.reserved:
                    self._sender.mark_reserved(job)
            elif other_host or job.delay or job.reserved or not await self._db_access.claim_target(job, chain.url):
                next_host = (urls.host_key(chain.url), urls.origin(chain.url)) if other_host else None
                return JobOutcome(job=job, state=JobState.READY, hops=chain.hops, target=chain.url, next_host=next_host)
            stored = self._db_access.stored_page(job.run, chain.keys[-1])
            if stored is not None:
                return StoredTarget(stored, chain)

    def _start_chain(self, job: LeasedJob) -> RedirectChain:
        url, request, earlier_keys = job.url, job.request, []
        if job.target:
            earlier_keys.append(document_key(url, request.method, request.body))
            url, request = job.target, build_redirect_request(request, 302, url, job.target)
        return RedirectChain(url, request, limit=self._settings.max_redirects, hops=job.hops, earlier_keys=earlier_keys)

    def _robots_refusal(self, job: LeasedJob, url: str) -> str | None:
        robots = self._robots_handler.rules(job.host, job.defs_version)
        return None if robots is None else robots.refusal(url, self._settings.user_agent)
