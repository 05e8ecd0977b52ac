"""The way of a job: wait for its time → robots → stored page, or fetch → harvest → what is to be committed."""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor

from engine import urls
from engine.fetch.client import Fetcher
from engine.fetch.errors import FetchFailed
from engine.fetch.politeness import classify_status, host_backoff, retry_wait
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.model.job import JobKind, JobOrigin, JobState, LeasedJob, Request, StoredPage
from engine.model.job_key import document_key
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction import PageExtraction, PageExtractor, UnreadablePage, UnsupportedContent
from engine.node.memory import HeapTrimmer
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
    """Works one job at a time for each slot of the fetch loop, which calls `work`."""

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
        """`source` names this node in events; `threads` parse large pages."""
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
        """By job under way: answers read, their seconds, the bytes of their bodies."""

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """What became of the job. `started` is called when its request is about to be sent."""
        if job.kind is JobKind.EXTRACT:
            return await self._reextractor.reextract(job)
        try:
            done = await self._process(job, started)
            effort = self._fetch_stats.get(job.id)
            if effort is not None:
                done.fetches, done.fetch_seconds, done.received_bytes = effort
            return done
        finally:
            self._fetch_stats.pop(job.id, None)

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
        """Sleep until a delayed request may be sent; False: the host backs off, or the moment was missed."""
        wait = send_at - boottime()
        if wait > 0:
            await asyncio.sleep(wait)
        late = boottime() - send_at
        if late > max(0.002, min(_MAX_LATENESS, job.delay / 10)):
            return False
        return not self._db_access.is_backing_off(job.host, boottime())

    async def _fetch(self, job: LeasedJob) -> JobOutcome:
        """Fetch, following redirects that stay on a host without delay; another host's clock is its lease's affair."""
        url, hops, request = job.target or job.url, job.hops, job.request
        if job.target:
            request = build_redirect_request(request, 302, job.url, job.target)
        keys = [document_key(url, request.method, request.body)]
        if job.target:
            keys.append(document_key(job.url, job.request.method, job.request.body))
        while True:
            refusal = self._robots_refusal(job, url)
            if refusal is not None:
                return self._outcome(job, JobState.SKIPPED, refusal, url, hops=hops)
            try:
                answer = await self._send(job, url, request)
                meaning = classify_status(answer.status)
                if meaning != "redirect":
                    return await self._handle_response(job, url, answer, tuple(reversed(keys)), hops)
                if answer.location is None:
                    return self._outcome(
                        job, JobState.FAILED, answer.location_problem or "bad redirect", url, hops=hops
                    )
                if hops >= self._settings.max_redirects:
                    return self._outcome(job, JobState.FAILED, f"more than {hops} redirects", url, hops=hops)
                request = build_redirect_request(request, answer.status, url, answer.location)
            except FetchFailed as failure:
                return self._handle_fetch_failure(job, url, failure)
            url, hops, left = answer.location, hops + 1, url
            key = document_key(url, request.method, request.body)
            if key in keys:
                return self._outcome(job, JobState.FAILED, "redirects in a circle", url, hops=hops)
            keys.append(key)
            moved = urls.host_key(left) != urls.host_key(url)
            if not request.is_plain_get:
                await asyncio.sleep(job.delay)  # what is sent again with its body cannot be put back
            elif moved or job.delay or not await self._db_access.claim_target(job, url):
                place = (urls.host_key(url), urls.origin(url)) if moved else None
                return JobOutcome(job=job, state=JobState.READY, hops=hops, target=url, next_host=place)
            stored = self._db_access.stored_page(job.run, key)
            if stored is not None:
                return await self._process_stored(job, stored, hops=hops, target=url)

    def _robots_refusal(self, job: LeasedJob, url: str) -> str | None:
        rules = self._robots_handler.rules(job.host, job.defs_version)
        if rules is None or rules[1].allowed(url, self._settings.user_agent):
            return None
        status = rules[0]
        return f"robots.txt answered {status}" if status >= 500 else "robots.txt disallows it"

    async def _send(self, job: LeasedJob, url: str, request: Request) -> FetchResponse:
        rule = self._def_cache.host_rule(job.defs_version, urls.host_key(url))
        answer = await self._fetcher.send(
            url, request, headers=rule.headers, cookies=rule.cookies, url_from_defs=job.origin is JobOrigin.LOCATOR
        )
        count, seconds, received = self._fetch_stats.get(job.id, _NO_FETCH_STATS)
        self._fetch_stats[job.id] = (count + 1, seconds + answer.elapsed, received + answer.received)
        return answer

    async def _read_robots(self, job: LeasedJob) -> JobOutcome:
        try:
            answer, found = await self._robots_handler.fetch(job)
        except FetchFailed as failure:
            # The pages of the host will say what is wrong with it; its robots.txt must not hide that.
            event = self._event(job, "WARNING", f"{job.url}: {failure.reason}; taken as allowing everything")
            return JobOutcome(
                job=job, state=JobState.DONE, attempts=1, robots=self._robots_handler.unreachable, events=(event,)
            )
        if classify_status(answer.status) == "retry" and job.attempts + 1 < self._settings.max_attempts:
            return self._retry(job, job.url, f"HTTP {answer.status}", answer)
        level: Level = "WARNING" if answer.status >= 500 else "INFO"
        event = self._event(job, level, f"{answer.status} {job.url}")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, robots=found, events=(event,))

    async def _read_sitemap(self, job: LeasedJob) -> JobOutcome:
        try:
            answer, children = await self._sitemap_handler.fetch(job)
        except FetchFailed as failure:
            return self._handle_fetch_failure(job, job.url, failure)
        if classify_status(answer.status) == "retry":
            return self._retry(job, job.url, f"HTTP {answer.status}", answer)
        if classify_status(answer.status) != "ok":
            return self._failed(job, f"HTTP {answer.status}", job.url)
        event = self._event(job, "INFO" if children else "WARNING", f"{job.url}: {len(children)} entries")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, children=children, events=(event,))

    async def _handle_response(
        self, job: LeasedJob, url: str, answer: FetchResponse, keys: tuple[bytes, ...], hops: int
    ) -> JobOutcome:
        """What the final answer of a fetch means for its job."""
        document = NewDocument(
            keys=keys,
            url=urls.without_credentials(url),
            status=answer.status,
            content_type=answer.content_type,
            fetched_at=time.time(),
            headers=answer.headers,
            body=answer.body,
        )
        match classify_status(answer.status):
            case "ok":
                done = await self._extract(
                    job, answer.body, answer.content_type, document.url, answer.status, document.fetched_at,
                    f"{answer.elapsed * 1000:.0f} ms", hops,
                )  # fmt: skip
                done.document, done.attempts, done.target = document, 1, url if hops else None
                return done
            case "gone":
                gone = self._gone_outcome(job, answer.status, url, hops)
                gone.document, gone.attempts = document, 1
                return gone
            case "retry":
                return self._retry(job, url, f"HTTP {answer.status}", answer)
            case _:
                refused = self._failed(job, f"HTTP {answer.status}", url, hops)
                refused.document = document
                return refused

    async def _process_stored(
        self, job: LeasedJob, stored: StoredPage, *, hops: int = 0, target: str | None = None
    ) -> JobOutcome:
        """Work a document that was fetched before; an answer that was a refusal is one for this job too."""
        if classify_status(stored.status) == "gone":
            return self._gone_outcome(job, stored.status, stored.url, hops)
        if classify_status(stored.status) != "ok":
            return self._outcome(job, JobState.FAILED, f"HTTP {stored.status}", stored.url, hops=hops)
        body = self._db_access.page_body(stored.page)
        if body is None:
            return self._outcome(job, JobState.FAILED, "its stored page is missing", stored.url, hops=hops)
        done = await self._extract(
            job, body, stored.content_type, stored.url, stored.status, stored.fetched_at, "stored", hops
        )
        done.page, done.target = stored.page, target
        return done

    async def _extract(
        self, job: LeasedJob, body: bytes, kind: str, url: str, status: int, fetched_at: float, took: str, hops: int
    ) -> JobOutcome:
        def work() -> PageExtraction:
            return self._page_extractor.extract(
                job, body=body, content_type=kind, url=url, status=status, fetched_at=fetched_at
            )

        try:
            if len(body) <= MAX_INLINE_PARSE_BYTES:
                harvest = work()
            else:
                harvest = await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except UnsupportedContent as what:
            state = JobState.SKIPPED if job.origin is JobOrigin.LINK else JobState.FAILED
            return self._outcome(job, state, f"not a page: {what}", url, hops=hops)
        except UnreadablePage as problem:
            return self._outcome(job, JobState.FAILED, str(problem), url, hops=hops)
        text = f"{status} {url} {took} {len(body) / 1000:.0f} kB {len(harvest.rows)} rows"
        notes = [note for note, said in (("empty page", not body), ("bytes replaced", harvest.damaged)) if said]
        events = [self._event(job, "WARNING" if notes else "INFO", "; ".join([text, *notes]))]
        told = harvest.rejected[:_MAX_REJECTION_EVENTS]
        events += [
            self._event(job, "WARNING", f"{r.data_def}.{r.field}: {r.reason} {r.place} on {url}", "row") for r in told
        ]
        if len(harvest.rejected) > len(told):
            more = len(harvest.rejected) - len(told)
            events.append(self._event(job, "WARNING", f"{more} more records rejected on {url}", "row"))
        counts: dict[str, int] = {}
        for rejection in harvest.rejected:
            counts[rejection.data_def] = counts.get(rejection.data_def, 0) + 1
        return JobOutcome(
            job=job, state=JobState.DONE, hops=hops, rows=harvest.rows, children=harvest.children,
            rejected=tuple(counts.items()), events=tuple(events),
        )  # fmt: skip

    def _gone_outcome(self, job: LeasedJob, status: int, url: str, hops: int) -> JobOutcome:
        state = JobState.SKIPPED if job.origin is JobOrigin.LINK else JobState.FAILED
        return self._outcome(job, state, f"HTTP {status} (gone)", url, hops=hops)

    def _handle_fetch_failure(self, job: LeasedJob, url: str, failure: FetchFailed) -> JobOutcome:
        if failure.retryable:
            return self._retry(job, url, failure.reason, None)
        return self._failed(job, failure.reason, url)

    def _retry(self, job: LeasedJob, url: str, reason: str, answer: FetchResponse | None) -> JobOutcome:
        """A later attempt, or the end of them. 429 and 503 leave the whole host alone for a while."""
        attempt, backoff = job.attempts + 1, None
        if answer is not None and answer.status in (429, 503):
            backoff = boottime() + host_backoff(self._db_access.strikes(job.host) + 1, answer.retry_after)
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
        """A fetch that was made, and came to nothing."""
        failed = self._outcome(job, JobState.FAILED, reason, url, hops=hops)
        failed.attempts, failed.host_failed = 1, True
        return failed

    def _outcome(self, job: LeasedJob, state: JobState, reason: str, url: str, *, hops: int = 0) -> JobOutcome:
        level: Level = "ERROR" if state is JobState.FAILED else "INFO"
        event = self._event(job, level, f"{state} {urls.without_credentials(url)}: {reason}")
        return JobOutcome(job=job, state=state, reason=reason, hops=hops, events=(event,))

    def _event(self, job: LeasedJob, level: Level, text: str, kind: str = "page") -> Event:
        return Event(time.time(), level, self._source, kind, text, job.id)
