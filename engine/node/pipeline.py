"""Processes a job: wait → robots.txt → stored page or fetch → extraction; retries failed requests."""

import contextlib
from collections.abc import Callable, Sequence

from engine.errors import CrawlError
from engine.http.byte_budget import ByteBudget, NoRoom
from engine.http.client import Fetcher
from engine.model.host import product_token
from engine.model.job import JobKind, JobState, LeasedJob
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction.extractor import PageExtractor
from engine.node.extraction.page_extraction import ExtractionUnavailable
from engine.node.extraction.process_pool import ExtractionPool
from engine.node.handlers.file_job import FileHandler
from engine.node.handlers.file_rows import FileRows
from engine.node.handlers.freshness import Revalidation
from engine.node.handlers.login_job import LoginHandler
from engine.node.handlers.login_page import LoginGuard, LoginPageReader
from engine.node.handlers.page_fetch import FetchedPage, PageFetcher, StoredTarget
from engine.node.handlers.page_processing import PageProcessor
from engine.node.handlers.reextraction import Reextractor
from engine.node.handlers.robots_cache import RobotsCache
from engine.node.handlers.robots_job import RobotsHandler
from engine.node.handlers.sitemap_job import SitemapHandler
from engine.node.host_gate import HostGates
from engine.node.loading.group_loaders import GroupLoaders
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.file_parts import FileParts
from engine.node.requests.named_hosts import NamedHosts, RedirectRule
from engine.node.requests.request_sender import RequestSender
from engine.node.requests.shared_jars import SharedJars
from engine.settings import Settings
from engine.store.pages.documents import NewDocument
from engine.store.pages.temporary import DocumentUse
from engine.store.tables.host.hosts import HostFailure
from engine.store.tables.outcome import JobOutcome
from engine.store.tables.row.held_rows import HeldRows
from engine.store.tables.row.rows import NewRows

_HOLDING = (NewDocument, NewRows, HeldRows)
"""Effects that hold the bytes of a body until they are committed."""


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
        extraction_pool: ExtractionPool,
        named_hosts: NamedHosts,
        host_gates: HostGates,
        byte_budget: ByteBudget,
        group_loaders: GroupLoaders | None = None,
        shared_jars: SharedJars | None = None,
        login_page_reader: LoginPageReader | None = None,
        file_parts: FileParts | None = None,
    ) -> None:
        """`source` names this node in events.

        `byte_budget` limits the bodies of all jobs together, from reading to the commit.
        """
        self._def_cache = def_cache
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._outcomes = OutcomeBuilder(
            source=source, max_attempts=settings.max_attempts, find_retry_rule=def_cache.retry_rule
        )
        self._redirect_rule = RedirectRule(named_hosts)
        self._sender = RequestSender(
            fetcher=fetcher,
            db_access=db_access,
            def_cache=def_cache,
            named_hosts=named_hosts,
            host_gates=host_gates,
            byte_budget=byte_budget,
            settings=settings,
            group_loaders=group_loaders,
            shared_jars=shared_jars,
            file_parts=file_parts,
        )
        file_rows = FileRows(def_cache)
        self._reextractor = Reextractor(
            db_access=db_access,
            page_extractor=page_extractor,
            outcomes=self._outcomes,
            file_rows=file_rows,
        )
        self._revalidation, login_guard = Revalidation(def_cache, db_access), LoginGuard(def_cache)
        self._pages = PageProcessor(
            sender=self._sender,
            db_access=db_access,
            page_extractor=page_extractor,
            outcomes=self._outcomes,
            file_rows=file_rows,
            revalidation=self._revalidation,
            login_guard=login_guard,
        )
        self._sitemap_handler = SitemapHandler(settings.max_body, page_extractor, db_access, def_cache, self._outcomes)
        agent = product_token(settings.user_agent)
        robots_cache = RobotsCache(db_access, agent, extraction_pool)
        self._page_fetcher = PageFetcher(
            settings=settings,
            sender=self._sender,
            db_access=db_access,
            def_cache=def_cache,
            robots_cache=robots_cache,
            outcomes=self._outcomes,
            redirect_rule=self._redirect_rule,
            login_guard=login_guard,
            revalidation=self._revalidation,
        )
        self._login_handler: LoginHandler | None = None
        if login_page_reader is not None:
            self._login_handler = LoginHandler(
                settings=settings,
                sender=self._sender,
                db_access=db_access,
                def_cache=def_cache,
                robots_cache=robots_cache,
                redirect_rule=self._redirect_rule,
                outcomes=self._outcomes,
                page_reader=login_page_reader,
            )
        self._file_handler = None if file_parts is None else FileHandler(
            page_fetcher=self._page_fetcher, parts=file_parts, outcomes=self._outcomes, db_access=db_access
        )  # fmt: skip
        self._robots_handler = RobotsHandler(self._page_fetcher, self._outcomes, robots_cache, agent)

    def prepare(self, jobs: Sequence[LeasedJob]) -> None:
        """Read the stored versions of these jobs' pages, all at once. On failure, each job reads its own."""
        with contextlib.suppress(CrawlError):
            self._revalidation.load(jobs)

    async def admit(self, job: LeasedJob) -> JobOutcome | None:
        """Wait until the job may send its request, if it sends one; or the outcome of a job that sends none."""
        if job.kind is JobKind.EXTRACT or job.stored is not None or job.terms.login_failed:
            return None
        if job.terms.send_at is not None and job.kind not in (JobKind.ROBOTS, JobKind.LOGIN):
            refused = await self._page_fetcher.refuse_before_turn(job)
            if refused is not None:
                return refused
        return await self._sender.admit(job)

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """The outcome of the job. `started` is called when its request is about to be sent."""
        outcome = None
        try:
            if job.kind is JobKind.EXTRACT:
                outcome = await self._reextractor.reextract(job, self._sender.share(job))
            else:
                outcome = await self._process(job, started)
        except NoRoom:
            outcome = self._outcomes.postponed(job)
        except ExtractionUnavailable as error:
            outcome = self._outcomes.retry(job, job.url, str(error))
            outcome.remove(HostFailure)
        finally:
            share = self._sender.take_share(job)
            if share is not None:
                if outcome is not None and any(isinstance(effect, _HOLDING) for effect in outcome.effects):
                    outcome.release_when_settled(share.release)
                else:
                    share.release()
        self._sender.complete(outcome)
        keeps = self._def_cache.keeps_documents(job) if job.kind is JobKind.PAGE else None
        return outcome if keeps is None else outcome.add(DocumentUse(keeps))

    def forget(self, job: LeasedJob) -> None:
        """Free the state of a job, however it ended."""
        self._sender.forget(job)
        self._revalidation.forget(job)

    async def aclose(self) -> None:
        """Close all connections, end the extraction processes."""
        self._page_extractor.close()
        await self._sender.aclose()

    async def _process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        if job.stored is not None:
            refusal = self._redirect_rule.refusal(job, job.url, job.stored.url)
            if refusal is not None:
                return self._outcomes.ended(job, JobState.SKIPPED, refusal, job.stored.url)
            return await self._pages.process_stored(job, job.stored)
        if job.terms.login_failed:
            reason = f"the login to its host failed: {self._db_access.login_failure(job.host)}"
            return self._outcomes.ended(job, JobState.FAILED, reason, job.url)
        started()
        if job.kind is JobKind.ROBOTS:
            return await self._robots_handler.read(job)
        if job.kind is JobKind.LOGIN and self._login_handler is not None:
            return await self._login_handler.log_in(job)
        if job.kind is JobKind.FILE and self._file_handler is not None:
            return await self._file_handler.download(job, self._sender.dismiss)
        fetched = await self._page_fetcher.fetch(job)
        self._sender.dismiss(job)
        if isinstance(fetched, FetchedPage):
            if job.kind is JobKind.SITEMAP:
                return await self._sitemap_handler.read(job, fetched, self._sender.share(job))
            return await self._pages.process_fetched(job, fetched)
        if isinstance(fetched, StoredTarget):
            chain = fetched.chain
            return await self._pages.process_stored(job, fetched.stored, hops=chain.hops, target=chain.url)
        return fetched
