"""Sends the requests of a job: admits them to their host, adds its headers, counts what they cost."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct, field

from crawl_engine import urls
from crawl_engine.browser.far_ends import HostAccess
from crawl_engine.browser.messages import Verdict
from crawl_engine.files.local_file import read_file
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.challenge import REFUSAL_STATUSES, find_challenge
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FILES_NOT_ALLOWED, AddressRefused, FetchFailed, NoFileLeft
from crawl_engine.http.request import NOTHING, HostPart, build_request, host_part, may_carry_credentials
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.robots_request import ROBOTS_BYTES_READ
from crawl_engine.http.transports.middleware import MiddlewareLoader, NamedMiddleware
from crawl_engine.model.host import CookieJarMode, seconds_until_open
from crawl_engine.model.job import JobKind, JobOrigin, JobState, LeasedJob, Request
from crawl_engine.model.retry_policy import MAX_WAIT, host_backoff
from crawl_engine.model.step import BrowserRule, StepResult
from crawl_engine.node.db_access import DbAccess, RequestLimitReached
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable
from crawl_engine.node.host_gate import HostBackingOff, HostGate, HostGates
from crawl_engine.node.loading.group_loaders import GroupLoader, GroupLoaders
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.node.requests.named_hosts import NamedHosts
from crawl_engine.node.requests.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from crawl_engine.runtime.clock import store_time
from crawl_engine.settings import Settings
from crawl_engine.store.tables.host.answers import LAST_ANSWERS
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.outcome import JobOutcome

_WITH_CREDENTIALS = (JobKind.PAGE, JobKind.FILE, JobKind.LOGIN)
_WITHOUT_COOKIES = (JobKind.ROBOTS, JobKind.SITEMAP)
_MIN_REFUSALS = 5
"""So many refused pages among a host's last answers rest the host, if they are also half of them."""


class Attempt(Struct, eq=False):
    """What the requests of an attempt at a job cost, and what their answers say; it travels with the job's page."""

    host: int
    share: BodyShare
    """The bytes that its body holds of the node's budget."""
    sent_at: float | None = None
    """Boot-time seconds; None: no request waits for its response."""
    requests: int = 0
    reserved: int = 0
    """Requests that were counted before they were sent."""
    responses: int = 0
    seconds: float = 0.0
    received: int = 0
    answers: list[tuple[int, float]] = field(default_factory=list)
    backoff: Backoff | None = None
    """The rest of the host after an answer."""
    changed_sites: set[str] = field(default_factory=set)
    """Sites with changed cookies that nodes share."""
    renders: bool = False
    """Whether its page needs a browser after all."""
    is_rendered: bool | None = None
    """Whether a browser loaded its page; None: its group has no browser, or no page came yet."""
    loaded: tuple[StepResult, ...] = ()
    """Results of the plugin loader."""
    on_send: Callable[[], None] = lambda: None
    """Called when a loader asks for the page: until then it can be given back."""

    async def reserve(self, job: LeasedJob, db_access: DbAccess) -> bool:
        """Count a further request under a page limit before it is sent. False: the limit is reached."""
        if not job.terms.limits:
            return True
        is_free = await db_access.reserve_request(job)
        self.reserved += is_free
        return is_free


class RequestSender(Struct, frozen=True, kw_only=True):
    """One for each node."""

    settings: Settings
    def_cache: DefCache
    fetcher: Fetcher
    db_access: DbAccess
    robots_cache: RobotsCache
    named_hosts: NamedHosts
    host_gates: HostGates
    group_loaders: GroupLoaders
    file_parts: FileParts
    middleware: MiddlewareLoader = field(default_factory=MiddlewareLoader)

    async def admit(self, job: LeasedJob) -> JobOutcome | None:
        """Wait until the job may send its first request; if its host rests, give the job back."""
        hours = job.plan.rule.hours
        if hours is not None and (closed := seconds_until_open(hours, time.time())):
            until = store_time() + closed
            return _give_back(job, Backoff(until, asked_until=until))
        try:
            takes_turn = not self.renders(job)
            await self.host_gates.enter(job, job.plan.limited, send_at=job.terms.send_at, takes_turn=takes_turn)
        except HostBackingOff as refusal:
            return _give_back(job, Backoff(refusal.until))
        return None

    def renders(self, job: LeasedJob) -> bool:
        """Whether its first request is a browser's, which takes its turn once the page has a place there."""
        return isinstance(self.group_loaders.find(job), BrowserRule)

    async def change_host(self, job: LeasedJob) -> None:
        """Have a job that sends several requests wait for its turn at the host of the next one. Raises HostBackingOff.

        `job`: with the plan, the delay and the concurrency of that host.
        """
        self.host_gates.exit(job)
        await self.host_gates.enter(job, job.plan.limited, send_at=None)

    def dismiss(self, job: LeasedJob) -> None:
        """Note that the job sends no more: another may take its place at the host."""
        self.host_gates.exit(job)

    async def send(self, job: LeasedJob, attempt: Attempt, url: str, request: Request) -> FetchResponse:
        """Send one request for a job, with the headers and cookies that the defs set for the host.

        The plugin loader of the job's group answers it, if the group has one. A further request of the job waits for
        its turn at its host, as the first one did in `admit`. Raises FetchFailed, AddressRefused if the host has only a
        guarded address and the defs do not name it, and HostBackingOff; after the last two nothing was sent.
        RequestLimitReached: no further challenge may be answered.
        """
        if urls.is_file_url(url):
            return await self._read_file(job, attempt, url)
        part = self._host_part(job, url)
        if (loader := self.group_loaders.find(job, renders=attempt.renders)) is not None:
            loaded = await self._load(loader, job, attempt, url, request, part)
            if loaded is not None:
                return loaded
        rule, turn = job.plan.rule, JobTurn(self, job, attempt)
        authorization, requested = None, None
        try:
            while True:  # the answer to a challenge is a request like any other: it waits for its turn
                download = self.file_parts.download(job) if job.kind is JobKind.FILE else None
                response = await self.fetcher.send(
                    url,
                    request,
                    headers=part.headers,
                    cookies=part.cookies,
                    auth=part.auth,
                    authorization=authorization,
                    sign=rule.sign,
                    requested_signature=requested,
                    route=part.route,
                    url_from_defs=job.is_written(url),
                    exempt=self.named_hosts.is_known_exempt(job),
                    find_exemption=partial(self.named_hosts.exempts, job),
                    turn=turn,
                    middleware=self._find_middleware(job, url, rule.middleware) if rule.middleware else (),
                    read_at_most=ROBOTS_BYTES_READ if job.kind is JobKind.ROBOTS else None,
                    session_cookies=_sends_cookies(job, rule.jar_mode),
                    keep_cookies=rule.jar_mode != "off",
                    share=None if download is not None else attempt.share,
                    download=download,
                )
                if not response.is_answered_again:
                    return response
                authorization = response.challenge_answer or authorization
                requested = response.requested_signature or requested
        except (AddressRefused, NoFileLeft):
            attempt.requests -= 1
            raise

    async def begin_turn(
        self, job: LeasedJob, attempt: Attempt, *, further: bool = False, again: bool = False
    ) -> float:
        """Wait for the job's next turn at its host; returns the moment.

        `further`: the job reserved one request alone. `again`: no server got the request before, which does not count.
        Raises HostBackingOff, RequestLimitReached.
        """
        if again:
            attempt.requests -= 1
            attempt.sent_at = None
        if further and not await attempt.reserve(job, self.db_access):
            raise RequestLimitReached
        await self.host_gates.wait_turn(job, again=again or attempt.requests > 0)
        attempt.requests += 1
        attempt.sent_at = store_time()
        return attempt.sent_at

    def _host_part(self, job: LeasedJob, url: str) -> HostPart:
        """Credentials, headers and cookies that the host's rule adds to one request."""
        rule = job.plan.rule
        if not (rule.headers or rule.cookies or rule.auth or rule.route):
            return NOTHING
        # a link without a locator has no start URL: its own URL says nothing
        start_url = (
            job.lineage.locator_url if job.lineage.origin is JobOrigin.LOCATOR or job.lineage.root != job.id else ""
        )
        allowed = job.kind in _WITH_CREDENTIALS and may_carry_credentials(rule, url, start_url, job.plan.plain_hosts)
        return host_part(rule, with_credentials=allowed)

    async def _read_file(self, job: LeasedJob, attempt: Attempt, url: str) -> FetchResponse:
        if not self.settings.allow_file:
            raise FetchFailed(FILES_NOT_ALLOWED, kind="file", retryable=False)
        attempt.requests += 1
        sent_at = store_time()
        response = await read_file(url, max_body=self.settings.max_body, share=attempt.share)
        return self.count_response(job, attempt, sent_at, response)

    async def _load(
        self,
        loader: GroupLoader | BrowserRule,
        job: LeasedJob,
        attempt: Attempt,
        url: str,
        request: Request,
        part: HostPart,
    ) -> FetchResponse | None:
        """The response of a plugin loader, in place of a request; None: the built-in client must send it."""
        await self.check_address(job, url)
        outgoing = build_request(
            url, request, part.headers, part.cookies, from_defs=job.is_written(url), auth=part.auth
        )
        sent_at = store_time()

        def on_send() -> None:
            nonlocal sent_at
            attempt.requests += 1
            attempt.sent_at = sent_at = store_time()
            attempt.on_send()

        async def begin_again() -> None:
            nonlocal sent_at
            sent_at = await self.begin_turn(job, attempt, further=True)

        again = attempt.requests > 0
        if isinstance(loader, BrowserRule):
            outcome = await self.group_loaders.render(
                loader, job, url, outgoing, attempt.share, again=again, on_send=on_send, begin_again=begin_again,
                rules=RenderedPage(self, job, attempt),
            )  # fmt: skip
        else:
            outcome = await self.group_loaders.load(
                loader, job, url, outgoing, attempt.share, again=again, on_send=on_send
            )
        attempt.loaded = outcome.results
        if outcome.failure is not None:
            raise outcome.failure
        if outcome.response is None:
            attempt.requests -= 1
            return None
        return self.count_response(job, attempt, sent_at, outcome.response)

    def count_response(
        self, job: LeasedJob, attempt: Attempt, sent_at: float, response: FetchResponse
    ) -> FetchResponse:
        """Note the costs of a response, and whether it refuses the crawler."""
        attempt.sent_at = None
        attempt.responses += 1
        attempt.seconds += response.elapsed
        attempt.received += response.received
        if response.changed_site and job.plan.rule.jar_mode == "shared":
            attempt.changed_sites.add(response.changed_site)
        if job.kind is not JobKind.ROBOTS and not response.is_answered_again:
            attempt.answers.append((response.status, response.elapsed))
            self._judge(job, response)
        if (gate := self.host_gates.gate_of(job)) is not None:
            if response.refuses_host or response.exceeds_rate:
                self._back_off(gate, job, attempt, sent_at, response)
            else:
                gate.note_answer(sent_at)
        return response

    def _judge(self, job: LeasedJob, response: FetchResponse) -> None:
        """Note in the response whether it refuses the crawler, and whether that concerns one page or the host.

        A refused page concerns the host once at least five of its last 20 answers are refusals, and half of them.
        Answers to further requests for a refused page do not count: where few pages are refused, they come one after
        another.
        """
        rule = job.plan.rule
        if response.exceeds_rate:
            response.refusal, response.refuses_host = f"HTTP {response.status}", True
        elif (reason := find_challenge(response, rule)) is not None:
            response.refusal, response.refuses_host = reason, True
        elif rule.challenges and response.status in REFUSAL_STATUSES:
            answers, refusals = self.db_access.recent_answers(job.host)
            if job.attempts == 0:
                answers, refusals = min(LAST_ANSWERS, answers + 1), refusals + 1
            response.refusal = f"HTTP {response.status}"
            response.refuses_host = refusals >= _MIN_REFUSALS and 2 * refusals >= answers

    async def check_address(self, job: LeasedJob, url: str) -> None:
        """Raise AddressRefused if the address guard refuses the host now, and the defs do not name it."""
        if not self.named_hosts.exempts(job):
            await self.fetcher.check_address(url, job.plan.rule.route)

    def _find_middleware(self, job: LeasedJob, url: str, names: tuple[str, ...]) -> tuple[NamedMiddleware, ...]:
        if job.kind not in _WITH_CREDENTIALS or url == f"{urls.origin(url)}/robots.txt":
            return ()
        return self.middleware.find(names, job.defs_version, self.def_cache.definitions)

    def cookie_header(self, job: LeasedJob, url: str, request: Request) -> str:
        """The cookies that a request of the job would have now; empty if it cannot be built."""
        job = self.def_cache.plan_for(job, url)  # it may be at a host that led here
        with suppress(FetchFailed):
            return self.fetcher.cookie_header(
                url, request, self._host_part(job, url), url_from_defs=job.is_written(url),
                session_cookies=_sends_cookies(job, job.plan.rule.jar_mode),
            )  # fmt: skip
        return ""

    async def aclose(self) -> None:
        """Close all connections, end the loader processes."""
        await self.group_loaders.aclose()
        await self.fetcher.aclose()
        self.host_gates.close()

    def _back_off(
        self, gate: HostGate, job: LeasedJob, attempt: Attempt, sent_at: float, response: FetchResponse
    ) -> None:  # fmt: skip
        """Hold back the host before the commit: in this process, and through the clock in others."""
        now, retry_after = store_time(), response.retry_after
        until = now + host_backoff(self.db_access.strikes(job.host) + 1, retry_after)
        # a host that refuses every probe for minutes is tried with all it may get: its jobs would wait for hours
        probe = retry_after is not None or until - now < MAX_WAIT
        strike, end = gate.strike(sent_at, until, until if retry_after is not None else now, probe=probe)
        earlier = attempt.backoff or Backoff(0.0)
        attempt.backoff = Backoff(
            end, earlier.throttled or response.exceeds_rate, earlier.strike or strike,
            response.refusal or f"HTTP {response.status}",
            max(earlier.asked_until, until if retry_after is not None else 0.0),
        )  # fmt: skip


class JobTurn(Struct):
    """The turns of one request of a job: several if it answers a challenge, or a middleware sends it again."""

    sender: RequestSender
    job: LeasedJob
    attempt: Attempt
    sent_at: float = 0.0

    async def begin(self) -> None:
        """Wait until the next request may be sent. Raises HostBackingOff, RequestLimitReached."""
        self.sent_at = await self.sender.begin_turn(self.job, self.attempt, further=self.sent_at > 0)

    async def begin_again(self) -> None:
        """As in `HostTurn`. Raises HostBackingOff."""
        self.sent_at = await self.sender.begin_turn(self.job, self.attempt, again=True)

    def end(self, response: FetchResponse) -> None:
        self.sender.count_response(self.job, self.attempt, self.sent_at, response)


class RenderedPage(Struct):
    """What the rules of the crawl say of the requests of a page in a browser (see PageRules)."""

    sender: RequestSender
    job: LeasedJob
    attempt: Attempt

    def find_access(self, host_key: str) -> HostAccess:
        rule = self.sender.def_cache.plan(self.job, host_key).rule
        return HostAccess(self.sender.named_hosts.is_exempt(host_key, self.job.defs_version), rule.route)

    async def judge_document(self, url: str) -> Verdict:
        """Raises HostBackingOff, RequestLimitReached."""
        if (verdict := await self.judge_part(url)).refusal:
            return verdict
        await self.sender.begin_turn(self.job, self.attempt, further=True)
        return Verdict()

    async def judge_part(self, url: str) -> Verdict:
        job, robots_cache = self.job, self.sender.robots_cache
        host = self.sender.db_access.find_host(job.run, urls.host_key(url))
        if host is None:
            return Verdict(is_for_host=True)
        try:
            robots = await robots_cache.rules(host, job.defs_version)
            if robots is None or robots.allows_all or not robots.readable:
                return Verdict(is_for_host=True)
            refusal = await robots_cache.find_refusal(host, job.defs_version, url)
        except (RobotsPending, RobotsGuarded, ExtractionUnavailable):
            return Verdict(is_for_host=True)
        return Verdict(refusal.reason if refusal is not None and refusal.by_rule else "")


def _sends_cookies(job: LeasedJob, jar_mode: CookieJarMode) -> bool:
    return jar_mode != "off" and job.kind not in _WITHOUT_COOKIES


def _give_back(job: LeasedJob, backoff: Backoff) -> JobOutcome:
    """READY, to be leased when the backoff is over."""
    return JobOutcome(job=job, state=JobState.READY, hops=job.hops, target=job.target, effects=(backoff,))
