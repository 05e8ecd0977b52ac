"""Processes a job: wait → robots.txt → stored page or fetch → extraction; retries failed requests."""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor

from engine import urls
from engine.fetch.client import Fetcher
from engine.fetch.errors import FetchFailed
from engine.fetch.redirect_chain import RedirectChain, RedirectRejected
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import classify_status, host_backoff, retry_wait
from engine.model.job import JobKind, JobOrigin, JobState, LeasedJob, Request, StoredPage
from engine.model.job_key import document_key
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction import PageExtraction, PageExtractor, UnreadablePage, UnsupportedContent
from engine.node.heap_trimmer import HeapTrimmer
from engine.node.reextraction import MAX_INLINE_PARSE_BYTES, Reextractor
from engine.node.robots_job import RobotsHandler
from engine.node.sitemap_job import SitemapHandler
from engine.runtime.clock import boottime
from engine.settings import Settings
from engine.store.pages.documents import NewDocument
from engine.store.tables.events import Event, Level
from engine.store.transactions.outcome import JobOutcome

_MAX_LATENESS = 0.05
_MAX_REJECTION_EVENTS = 5
_NO_FETCH_STATS = (0, 0.0, 0)


class Pipeline:
    """Processes one job at a time for each slot of the fetch loop, which calls `process`."""

    def __init__(
        self,
        *,
        source: str,
        settings: Settings,
        fetcher: Fetcher,
        db_access: DbAccess,
        def_cache: DefCache,
        page_extractor: PageExtractor,
        heap_trimmer: HeapTrimmer,
        executor: Executor,
    ) -> None:
        """`source` names this node in events; `executor` parses large pages."""
        self._source = source
        self._settings = settings
        self._fetcher = fetcher
        self._db_access = db_access
        self._def_cache = def_cache
        self._page_extractor = page_extractor
        self._executor = executor
        self._reextractor = Reextractor(
            source=source, db_access=db_access, page_extractor=page_extractor, executor=executor
        )
        self._robots_handler = RobotsHandler(self._send, db_access, settings.user_agent)
        self._sitemap_handler = SitemapHandler(self._send, settings.max_body, heap_trimmer)
        self._fetch_stats: dict[int, tuple[int, float, int]] = {}
        """For each active job: responses read, their seconds, the bytes of their bodies."""

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """The outcome of the job. `started` is called when its request is about to be sent."""
        if job.kind is JobKind.EXTRACT:
            return await self._reextractor.reextract(job)
        try:
            outcome = await self._process(job, started)
            stats = self._fetch_stats.get(job.id)
            if stats is not None:
                outcome.fetches, outcome.fetch_seconds, outcome.received_bytes = stats
            return outcome
        finally:
            self._fetch_stats.pop(job.id, None)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()

    async def _process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        if job.stored is not None:
            return await self._process_stored(job, job.stored)
        if job.send_at is not None and not await self._wait_to_send(job, job.send_at):
            return JobOutcome(job=job, state=JobState.READY, hops=job.hops, target=job.target)
        started()
        if job.kind is JobKind.ROBOTS:
            return await self._read_robots(job)
        if job.kind is JobKind.SITEMAP:
            return await self._read_sitemap(job)
        return await self._fetch(job)

    async def _wait_to_send(self, job: LeasedJob, send_at: float) -> bool:
        """Sleep until a delayed request may be sent; False: the host is in backoff, or the send time was missed."""
        wait = send_at - boottime()
        if wait > 0:
            await asyncio.sleep(wait)
        late = boottime() - send_at
        if late > max(0.002, min(_MAX_LATENESS, job.delay / 10)):
            return False
        return not self._db_access.is_backing_off(job.host, boottime())

    async def _fetch(self, job: LeasedJob) -> JobOutcome:
        """Fetch a page. Redirects that stay on a host without delay are followed at once; others are leased again."""
        url, request, earlier_keys = job.url, job.request, []
        if job.target:
            earlier_keys.append(document_key(url, request.method, request.body))
            url, request = job.target, build_redirect_request(request, 302, url, job.target)
        chain = RedirectChain(
            url, request, limit=self._settings.max_redirects, hops=job.hops, earlier_keys=earlier_keys
        )
        while True:
            refusal = self._robots_refusal(job, chain.url)
            if refusal is not None:
                return self._outcome(job, JobState.SKIPPED, refusal, chain.url, hops=chain.hops)
            previous_url = chain.url
            try:
                response = await self._send(job, chain.url, chain.request)
                if classify_status(response.status) != "redirect":
                    return await self._handle_response(job, chain, response)
                chain.advance(response)
            except FetchFailed as failure:
                return self._handle_fetch_failure(job, chain.url, failure)
            except RedirectRejected as rejected:
                return self._outcome(job, JobState.FAILED, str(rejected), chain.url, hops=chain.hops)
            other_host = urls.host_key(previous_url) != urls.host_key(chain.url)
            if not chain.request.is_plain_get:
                await asyncio.sleep(job.delay)  # a request that repeats its body cannot be leased again
            elif other_host or job.delay or not await self._db_access.claim_target(job, chain.url):
                next_host = (urls.host_key(chain.url), urls.origin(chain.url)) if other_host else None
                return JobOutcome(job=job, state=JobState.READY, hops=chain.hops, target=chain.url, next_host=next_host)
            stored = self._db_access.stored_page(job.run, chain.keys[-1])
            if stored is not None:
                return await self._process_stored(job, stored, hops=chain.hops, target=chain.url)

    def _robots_refusal(self, job: LeasedJob, url: str) -> str | None:
        robots = self._robots_handler.rules(job.host, job.defs_version)
        return None if robots is None else robots.refusal(url, self._settings.user_agent)

    async def _send(self, job: LeasedJob, url: str, request: Request) -> FetchResponse:
        rule = self._def_cache.host_rule(job.defs_version, urls.host_key(url))
        response = await self._fetcher.send(
            url, request, headers=rule.headers, cookies=rule.cookies, url_from_defs=job.origin is JobOrigin.LOCATOR
        )
        count, seconds, received = self._fetch_stats.get(job.id, _NO_FETCH_STATS)
        self._fetch_stats[job.id] = (count + 1, seconds + response.elapsed, received + response.received)
        return response

    async def _read_robots(self, job: LeasedJob) -> JobOutcome:
        try:
            response, robots = await self._robots_handler.fetch(job)
        except FetchFailed as failure:
            # The jobs of the host's pages report what is wrong with it; its robots.txt must not hide that.
            event = self._event(job, "WARNING", f"{job.url}: {failure.reason}; treated as allowing everything")
            return JobOutcome(
                job=job, state=JobState.DONE, attempts=1, robots=self._robots_handler.unreachable, events=(event,)
            )
        if classify_status(response.status) == "retry" and job.attempts + 1 < self._settings.max_attempts:
            return self._retry(job, job.url, f"HTTP {response.status}", response)
        level: Level = "WARNING" if response.status >= 500 else "INFO"
        event = self._event(job, level, f"{response.status} {job.url}")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, robots=robots, events=(event,))

    async def _read_sitemap(self, job: LeasedJob) -> JobOutcome:
        try:
            response, children = await self._sitemap_handler.fetch(job)
        except FetchFailed as failure:
            return self._handle_fetch_failure(job, job.url, failure)
        if classify_status(response.status) == "retry":
            return self._retry(job, job.url, f"HTTP {response.status}", response)
        if classify_status(response.status) != "ok":
            return self._failed(job, f"HTTP {response.status}", job.url)
        event = self._event(job, "INFO" if children else "WARNING", f"{job.url}: {len(children)} entries")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, children=children, events=(event,))

    async def _handle_response(self, job: LeasedJob, chain: RedirectChain, response: FetchResponse) -> JobOutcome:
        """The outcome of a job from the final response of its fetch."""
        url, hops, status = chain.url, chain.hops, response.status
        document = NewDocument(
            keys=tuple(reversed(chain.keys)),
            url=urls.without_credentials(url),
            status=status,
            content_type=response.content_type,
            fetched_at=time.time(),
            headers=response.headers,
            body=response.body,
        )
        match classify_status(status):
            case "ok":
                outcome = await self._extract(
                    job, response.body, response.content_type, document.url, status, document.fetched_at,
                    f"{response.elapsed * 1000:.0f} ms", hops,
                )  # fmt: skip
                outcome.document, outcome.attempts, outcome.target = document, 1, url if hops else None
                return outcome
            case "gone":
                gone = self._gone_outcome(job, status, url, hops)
                gone.document, gone.attempts = document, 1
                return gone
            case "retry":
                return self._retry(job, url, f"HTTP {status}", response)
            case _:
                refused = self._failed(job, f"HTTP {status}", url, hops)
                refused.document = document
                return refused

    async def _process_stored(
        self, job: LeasedJob, stored: StoredPage, *, hops: int = 0, target: str | None = None
    ) -> JobOutcome:
        """The outcome of a job from a document that was fetched before; a stored error status counts for it too."""
        if classify_status(stored.status) == "gone":
            return self._gone_outcome(job, stored.status, stored.url, hops)
        if classify_status(stored.status) != "ok":
            return self._outcome(job, JobState.FAILED, f"HTTP {stored.status}", stored.url, hops=hops)
        body = self._db_access.page_body(stored.page)
        if body is None:
            return self._outcome(job, JobState.FAILED, "its stored page is missing", stored.url, hops=hops)
        outcome = await self._extract(
            job, body, stored.content_type, stored.url, stored.status, stored.fetched_at, "stored", hops
        )
        outcome.page, outcome.target = stored.page, target
        return outcome

    async def _extract(
        self,
        job: LeasedJob,
        body: bytes,
        content_type: str,
        url: str,
        status: int,
        fetched_at: float,
        fetch_time: str,
        hops: int,
    ) -> JobOutcome:
        def work() -> PageExtraction:
            return self._page_extractor.extract(
                job, body=body, content_type=content_type, url=url, status=status, fetched_at=fetched_at
            )

        try:
            if len(body) <= MAX_INLINE_PARSE_BYTES:
                extraction = work()
            else:
                extraction = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except UnsupportedContent as error:
            state = JobState.SKIPPED if job.origin is JobOrigin.LINK else JobState.FAILED
            return self._outcome(job, state, f"not a page: {error}", url, hops=hops)
        except UnreadablePage as error:
            return self._outcome(job, JobState.FAILED, str(error), url, hops=hops)
        return JobOutcome(
            job=job,
            state=JobState.DONE,
            hops=hops,
            rows=extraction.rows,
            children=extraction.children,
            rejected=extraction.rejected_counts(),
            events=self._extraction_events(job, extraction, f"{status} {url} {fetch_time}", url, len(body)),
        )

    def _extraction_events(
        self, job: LeasedJob, extraction: PageExtraction, fetch: str, url: str, size: int
    ) -> tuple[Event, ...]:
        text = f"{fetch} {size / 1000:.0f} kB {len(extraction.rows)} rows"
        notes = [
            note for note, applies in (("empty page", not size), ("bytes replaced", extraction.damaged)) if applies
        ]
        events = [self._event(job, "WARNING" if notes else "INFO", "; ".join([text, *notes]))]
        shown = extraction.rejected[:_MAX_REJECTION_EVENTS]
        events += [
            self._event(job, "WARNING", f"{r.data_def}.{r.field}: {r.reason} {r.place} on {url}", "row") for r in shown
        ]
        if len(extraction.rejected) > len(shown):
            more = len(extraction.rejected) - len(shown)
            events.append(self._event(job, "WARNING", f"{more} more records rejected on {url}", "row"))
        return tuple(events)

    def _gone_outcome(self, job: LeasedJob, status: int, url: str, hops: int) -> JobOutcome:
        state = JobState.SKIPPED if job.origin is JobOrigin.LINK else JobState.FAILED
        return self._outcome(job, state, f"HTTP {status} (gone)", url, hops=hops)

    def _handle_fetch_failure(self, job: LeasedJob, url: str, failure: FetchFailed) -> JobOutcome:
        if failure.retryable:
            return self._retry(job, url, failure.reason, None)
        return self._failed(job, failure.reason, url)

    def _retry(self, job: LeasedJob, url: str, reason: str, response: FetchResponse | None) -> JobOutcome:
        """Retry later, or fail after the last attempt. 429 and 503 put the whole host in backoff."""
        attempt, backoff = job.attempts + 1, None
        if response is not None and response.status in (429, 503):
            backoff = boottime() + host_backoff(self._db_access.strikes(job.host) + 1, response.retry_after)
        if attempt >= self._settings.max_attempts:
            failed = self._failed(job, f"{reason} ({attempt} attempt{'s' if attempt > 1 else ''})", url)
            failed.backoff_until = backoff
            return failed
        wait = retry_wait(attempt, random.random())
        shown = urls.without_credentials(url)
        event = self._event(job, "WARNING", f"{shown}: {reason}; attempt {attempt + 1} in {wait:.1f} s")
        return JobOutcome(
            job=job, state=JobState.READY, reason=reason, attempts=1, not_before=boottime() + wait, hops=job.hops,
            target=job.target, backoff_until=backoff, events=(event,), host_failed=True,
        )  # fmt: skip

    def _failed(self, job: LeasedJob, reason: str, url: str, hops: int = 0) -> JobOutcome:
        """The outcome of a fetch that was sent and failed."""
        failed = self._outcome(job, JobState.FAILED, reason, url, hops=hops)
        failed.attempts, failed.host_failed = 1, True
        return failed

    def _outcome(self, job: LeasedJob, state: JobState, reason: str, url: str, *, hops: int = 0) -> JobOutcome:
        level: Level = "ERROR" if state is JobState.FAILED else "INFO"
        event = self._event(job, level, f"{state} {urls.without_credentials(url)}: {reason}")
        return JobOutcome(job=job, state=state, reason=reason, hops=hops, events=(event,))

    def _event(self, job: LeasedJob, level: Level, text: str, kind: str = "page") -> Event:
        return Event(time.time(), level, self._source, kind, text, job.id)
