"""Fetches for a job: obeys robots.txt, follows redirects or hands them to the next host's clock."""

from msgspec import Struct
from msgspec.structs import replace

from engine import urls
from engine.http.errors import AddressRefused, FetchFailed
from engine.http.redirects import RedirectChain, RedirectRejected, build_target_request
from engine.http.request import expand_url
from engine.http.response import FetchResponse
from engine.http.robots_request import MAX_ROBOTS_REDIRECTS
from engine.model.job import JobKind, JobState, LeasedJob, StoredPage, document_key
from engine.model.retry_policy import FOUND, NOT_MODIFIED, classify_status
from engine.node.db_access import DbAccess, RequestLimitReached
from engine.node.def_cache import DefCache
from engine.node.extraction.page_extraction import ExtractionUnavailable
from engine.node.handlers.freshness import Revalidation, StoredVersion
from engine.node.handlers.login_page import LoginGuard
from engine.node.handlers.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from engine.node.host_gate import HostBackingOff
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.named_hosts import RedirectRule
from engine.node.requests.request_sender import RequestSender
from engine.settings import Settings
from engine.store.tables.host.hosts import Backoff
from engine.store.tables.outcome import JobOutcome
from engine.store.transactions.robots import RobotsWanted

_BODY_REDIRECTED = "redirect to another host that would repeat the request's body there; use its target as the URL"

_UNSTABLE_ADDRESS = "the address guard refused its robots.txt again and again: the addresses of its host change"


class FetchedPage(Struct, frozen=True):
    """The final response of a fetch, and the hops that led to it."""

    chain: RedirectChain
    response: FetchResponse
    before: StoredVersion | None = None
    """The stored version of the page, if its group compares versions."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the site says that the stored version is the newest."""
        return self.response.status == NOT_MODIFIED and self.before is not None and bool(self.before.conditions)


class StoredTarget(Struct, frozen=True):
    """A redirect led to a page that this run has already stored."""

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
        def_cache: DefCache,
        robots_cache: RobotsCache,
        outcomes: OutcomeBuilder,
        redirect_rule: RedirectRule,
        revalidation: Revalidation,
        login_guard: LoginGuard,
    ) -> None:
        self._settings = settings
        self._sender = sender
        self._db_access = db_access
        self._def_cache = def_cache
        self._robots_cache = robots_cache
        self._outcomes = outcomes
        self._redirect_rule = redirect_rule
        self._revalidation = revalidation
        self._login_guard = login_guard

    async def fetch(self, job: LeasedJob) -> FetchedPage | StoredTarget | JobOutcome:
        """Fetch a page, a sitemap or a robots.txt.

        Returns an outcome if the job ends, is retried, or continues under another host's clock. A redirect on the same
        host without a delay is followed at once. Other redirects are leased again, as are all redirects of a job with a
        page limit, since the lease counts the next request.
        """
        chain = self._start_chain(job)
        while True:
            refused = None if job.kind is JobKind.ROBOTS else await self._refuse_by_robots(job, chain)
            if refused is not None:
                return refused
            previous_url = chain.url
            before = self._revalidation.find(job, chain)
            request = chain.request if before is None else before.add_conditions(chain.request)
            try:
                response = await self._sender.send(job, chain.url, request)
                if response.refusal is not None or classify_status(response.status) != "redirect":
                    if response.loaded_url is None or response.refusal is not None:
                        return FetchedPage(chain, response, before)
                    return await self._follow_loader(job, chain, response, response.loaded_url)
                chain.advance(response)
            except HostBackingOff as backoff:
                return self._continue_later(job, chain).add(Backoff(backoff.until))
            except RequestLimitReached:
                return self._continue_later(job, chain)  # when a limit is lifted
            except FetchFailed as failure:
                return self._outcomes.fetch_failed(job, chain.url, failure)
            except RedirectRejected as rejected:
                if job.kind is JobKind.ROBOTS:
                    return FetchedPage(chain, response)  # a robots.txt whose redirects lead nowhere does not exist
                return self._outcomes.ended(job, JobState.FAILED, str(rejected), chain.url, hops=chain.hops)
            lost = self._login_guard.is_lost(job, previous_url, chain.url)
            if lost is not None:
                return self._outcomes.logged_out(job, chain.url, "redirected to the login page", lost.on_lost)
            refusal = self._redirect_rule.refusal(job, previous_url, chain.url)
            if refusal is not None and job.kind is JobKind.ROBOTS:
                if self._redirect_rule.guard_refusal(job, chain.url) is not None:
                    return self._outcomes.ended(job, JobState.FAILED, refusal, chain.url, hops=chain.hops)
                return FetchedPage(chain, response)
            if refusal is not None:
                return self._outcomes.ended(job, JobState.SKIPPED, refusal, chain.url, hops=chain.hops)
            other_host = urls.host_key(previous_url) != urls.host_key(chain.url)
            if not chain.request.is_plain_get:
                if other_host:
                    return self._outcomes.ended(job, JobState.FAILED, _BODY_REDIRECTED, previous_url, hops=chain.hops)
                if job.terms.reserved and not await self._db_access.reserve_request(job):
                    return JobOutcome(job=job, state=JobState.READY)  # it starts again where a limit is lifted
                # a request that repeats its body cannot be leased again: the sender has it wait for its turn
                if job.terms.reserved:
                    self._sender.mark_reserved(job)
            elif other_host or job.terms.delay or job.terms.reserved or not await self._claim_target(job, chain.url):
                next_host = (urls.host_key(chain.url), urls.origin(chain.url)) if other_host else None
                return JobOutcome(job=job, state=JobState.READY, hops=chain.hops, target=chain.url, next_host=next_host)
            stored = self._db_access.stored_page(job.run, chain.keys[-1]) if job.kind is JobKind.PAGE else None
            if stored is not None:
                return StoredTarget(stored, chain)

    async def _follow_loader(
        self, job: LeasedJob, chain: RedirectChain, response: FetchResponse, target: str
    ) -> FetchedPage | JobOutcome:
        """Follow a plugin loader's response that was led to `target`, like a redirect.

        On another host, the page is loaded again, under the clock and the robots.txt of that host. Raises
        RedirectRejected and FetchFailed.
        """
        previous_url = chain.url
        chain.advance(replace(response, status=FOUND, location=target))
        lost = self._login_guard.is_lost(job, previous_url, chain.url)
        if lost is not None:
            return self._outcomes.logged_out(job, chain.url, "redirected to the login page", lost.on_lost)
        refusal = self._redirect_rule.refusal(job, previous_url, chain.url)
        if refusal is not None:
            return self._outcomes.ended(job, JobState.SKIPPED, refusal, chain.url, hops=chain.hops)
        if urls.host_key(previous_url) == urls.host_key(chain.url):
            return await self._refuse_by_robots(job, chain) or FetchedPage(chain, response)
        if not chain.request.is_plain_get:
            return self._outcomes.ended(job, JobState.FAILED, _BODY_REDIRECTED, previous_url, hops=chain.hops)
        next_host = urls.host_key(chain.url), urls.origin(chain.url)
        return JobOutcome(job=job, state=JobState.READY, hops=chain.hops, target=chain.url, next_host=next_host)

    def _start_chain(self, job: LeasedJob) -> RedirectChain:
        url, request, earlier_keys = job.url, job.request, []
        if job.target:
            earlier_keys.append(document_key(url, request.method, request.body, request.variant))
            url, request = job.target, build_target_request(request, url, job.target)
        if job.kind is JobKind.ROBOTS:  # a robots.txt is not a page: it is asked for as its host says
            return RedirectChain(url, request, limit=MAX_ROBOTS_REDIRECTS, hops=job.hops, earlier_keys=earlier_keys)
        return RedirectChain(
            url, request, limit=self._settings.max_redirects, hops=job.hops, earlier_keys=earlier_keys,
            query_stripper=self._def_cache.query_stripper(job.defs_version),
        )  # fmt: skip

    async def _claim_target(self, job: LeasedJob, target: str) -> bool:
        """Whether the job may fetch the target of a redirect now: no two jobs fetch one page at a time."""
        return job.kind is not JobKind.PAGE or await self._db_access.claim_target(job, target)

    def _continue_later(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome:
        """READY, to continue at the last redirect; a request that repeats its body starts again."""
        if chain.request.is_plain_get and chain.hops:
            return JobOutcome(job=job, state=JobState.READY, hops=chain.hops, target=chain.url)
        return JobOutcome(job=job, state=JobState.READY, hops=job.hops, target=job.target)

    async def refuse_before_turn(self, job: LeasedJob) -> JobOutcome | None:
        """The outcome of a job that robots.txt disallows, which needs no turn at its host. None: it may be allowed."""
        try:
            return await self._apply_robots(job, self._start_chain(job))
        except (RobotsPending, RobotsGuarded, ExtractionUnavailable):
            return None

    async def _refuse_by_robots(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome | None:
        """The outcome of a job whose URL may not be fetched now; None: it may.

        SKIPPED if a rule disallows it, FAILED if the host's robots.txt cannot be read, READY until it is read.
        """
        try:
            return await self._apply_robots(job, chain)
        except RobotsPending:
            return self._continue_later(job, chain)
        except RobotsGuarded:
            return await self._ask_robots_first(job, chain)

    async def _apply_robots(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome | None:
        """As `_refuse_by_robots`. Raises RobotsPending and RobotsGuarded."""
        try:
            url = expand_url(chain.url) if job.is_written(chain.url) else chain.url
        except FetchFailed as failure:
            return self._outcomes.fetch_failed(job, chain.url, failure)
        refusal = await self._robots_cache.find_refusal(job.host, job.defs_version, url)
        if refusal is None:
            return None
        state = JobState.SKIPPED if refusal.by_rule else JobState.FAILED
        return self._outcomes.ended(job, state, refusal.reason, chain.url, hops=chain.hops)

    async def _ask_robots_first(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome:
        """The address guard refused the host before: SKIPPED if it still does, else READY after its robots.txt.

        FAILED if that happened too often: the addresses of the host change.
        """
        scheme, host_key = chain.url.partition("://")[0], urls.host_key(chain.url)
        try:
            # and its other spelling: a host name with a trailing dot is the same host, and may have another address
            for url in dict.fromkeys((chain.url, f"{scheme}://{host_key}/")):
                await self._sender.check_address(job, url)
        except AddressRefused as refused:
            return self._outcomes.fetch_failed(job, chain.url, refused)
        if job.attempts >= self._settings.max_attempts:
            return self._outcomes.ended(job, JobState.FAILED, _UNSTABLE_ADDRESS, chain.url, hops=chain.hops)
        outcome = self._continue_later(job, chain)
        outcome.attempts = 1
        return outcome.add(RobotsWanted())
