"""Processes a job: wait → robots.txt → stored page or fetch → extraction; retries failed requests."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor

from engine import urls
from engine.fetch.client import Fetcher
from engine.fetch.errors import FetchFailed
from engine.fetch.retry_policy import classify_status
from engine.model.job import JobKind, JobState, LeasedJob, StoredPage
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction import PageExtraction, PageExtractor, UnreadablePage, UnsupportedContent
from engine.node.heap_trimmer import HeapTrimmer
from engine.node.host_gate import HostBackingOff, HostGates
from engine.node.outcomes import OutcomeBuilder
from engine.node.page_fetch import FetchedPage, PageFetcher, StoredTarget
from engine.node.reextraction import MAX_INLINE_PARSE_BYTES, Reextractor
from engine.node.request_sender import RequestSender, give_back
from engine.node.robots_job import RobotsHandler
from engine.node.sitemap_job import SitemapHandler
from engine.settings import Settings
from engine.store.pages.documents import NewDocument
from engine.store.tables.events import Level
from engine.store.transactions.outcome import JobOutcome


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
        host_gates: HostGates,
        executor: Executor,
    ) -> None:
        """`source` names this node in events; `executor` parses large pages."""
        self._settings = settings
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._executor = executor
        self._outcomes = OutcomeBuilder(source=source, max_attempts=settings.max_attempts)
        self._sender = RequestSender(fetcher=fetcher, db_access=db_access, def_cache=def_cache, host_gates=host_gates)
        self._reextractor = Reextractor(
            source=source, db_access=db_access, page_extractor=page_extractor, executor=executor
        )
        self._robots_handler = RobotsHandler(self._sender.send, db_access, settings.user_agent)
        self._sitemap_handler = SitemapHandler(self._sender.send, settings.max_body, heap_trimmer)
        self._page_fetcher = PageFetcher(
            settings=settings,
            sender=self._sender,
            db_access=db_access,
            robots_handler=self._robots_handler,
            outcomes=self._outcomes,
        )

    async def admit(self, job: LeasedJob) -> JobOutcome | None:
        """Wait until the job may send its request, if it sends one; or the outcome that gives it back."""
        if job.kind is JobKind.EXTRACT or job.stored is not None:
            return None
        return await self._sender.admit(job)

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """The outcome of the job. `started` is called when its request is about to be sent."""
        if job.kind is JobKind.EXTRACT:
            return await self._reextractor.reextract(job)
        try:
            outcome = await self._process(job, started)
        except HostBackingOff as refusal:
            outcome = give_back(job, refusal)
        self._sender.complete(outcome)
        return outcome

    def forget(self, job: LeasedJob) -> None:
        """Free what is kept of a job, however it ended."""
        self._sender.forget(job)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sender.aclose()

    async def _process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        if job.stored is not None:
            return await self._process_stored(job, job.stored)
        started()
        if job.kind is JobKind.ROBOTS:
            return await self._read_robots(job)
        if job.kind is JobKind.SITEMAP:
            return await self._read_sitemap(job)
        fetched = await self._page_fetcher.fetch(job)
        self._sender.dismiss(job)
        if isinstance(fetched, FetchedPage):
            return await self._process_fetched(job, fetched)
        if isinstance(fetched, StoredTarget):
            chain = fetched.chain
            return await self._process_stored(job, fetched.stored, hops=chain.hops, target=chain.url)
        return fetched

    async def _read_robots(self, job: LeasedJob) -> JobOutcome:
        try:
            response, robots = await self._robots_handler.fetch(job)
        except FetchFailed as failure:
            # The jobs of the host's pages report what is wrong with it; its robots.txt must not hide that.
            event = self._outcomes.event(job, "WARNING", f"{job.url}: {failure.reason}; treated as allowing everything")
            return JobOutcome(
                job=job, state=JobState.DONE, attempts=1, robots=self._robots_handler.unreachable, events=(event,)
            )
        if classify_status(response.status) == "retry" and job.attempts + 1 < self._settings.max_attempts:
            return self._outcomes.retry(job, job.url, f"HTTP {response.status}")
        level: Level = "WARNING" if response.status >= 500 else "INFO"
        event = self._outcomes.event(job, level, f"{response.status} {job.url}")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, robots=robots, events=(event,))

    async def _read_sitemap(self, job: LeasedJob) -> JobOutcome:
        try:
            response, children = await self._sitemap_handler.fetch(job)
        except FetchFailed as failure:
            return self._outcomes.fetch_failed(job, job.url, failure)
        if classify_status(response.status) == "retry":
            return self._outcomes.retry(job, job.url, f"HTTP {response.status}")
        if classify_status(response.status) != "ok":
            return self._outcomes.failed(job, f"HTTP {response.status}", job.url)
        event = self._outcomes.event(job, "INFO" if children else "WARNING", f"{job.url}: {len(children)} entries")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, children=children, events=(event,))

    async def _process_fetched(self, job: LeasedJob, fetched: FetchedPage) -> JobOutcome:
        """The outcome of a job from the final response of its fetch."""
        response, chain = fetched.response, fetched.chain
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
                gone = self._outcomes.not_a_page(job, f"HTTP {status} (gone)", url, hops=hops)
                gone.document, gone.attempts = document, 1
                return gone
            case "retry":
                return self._outcomes.retry(job, url, f"HTTP {status}")
            case _:
                refused = self._outcomes.failed(job, f"HTTP {status}", url, hops)
                refused.document = document
                return refused

    async def _process_stored(
        self, job: LeasedJob, stored: StoredPage, *, hops: int = 0, target: str | None = None
    ) -> JobOutcome:
        """The outcome of a job from a document that was fetched before; a stored error status counts for it too."""
        if classify_status(stored.status) == "gone":
            return self._outcomes.not_a_page(job, f"HTTP {stored.status} (gone)", stored.url, hops=hops)
        if classify_status(stored.status) != "ok":
            return self._outcomes.ended(job, JobState.FAILED, f"HTTP {stored.status}", stored.url, hops=hops)
        body = self._db_access.page_body(stored.page)
        if body is None:
            return self._outcomes.ended(job, JobState.FAILED, "its stored page is missing", stored.url, hops=hops)
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
            return self._outcomes.not_a_page(job, f"not a page: {error}", url, hops=hops)
        except UnreadablePage as error:
            return self._outcomes.ended(job, JobState.FAILED, str(error), url, hops=hops)
        return self._outcomes.extracted(
            job, extraction, status=status, url=url, fetch_time=fetch_time, size=len(body), hops=hops
        )
