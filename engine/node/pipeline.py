"""Processes a job: wait → robots.txt → stored page or fetch → extraction; retries failed requests."""

import time
from collections.abc import Callable

from engine import urls
from engine.fetch.byte_budget import ByteBudget, NoRoom
from engine.fetch.client import Fetcher
from engine.fetch.errors import FetchFailed
from engine.fetch.response import redact_headers
from engine.fetch.retry_policy import StatusClass, classify_status, no_page_reason, refused_reason
from engine.fetch.robots import product_token
from engine.model.job import JobKind, JobState, LeasedJob, Request, StoredPage
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction import UnreadablePage, UnsupportedContent
from engine.node.extraction_wire import MAX_SITEMAP_URLS
from engine.node.file_job import FileHandler
from engine.node.file_parts import FileParts
from engine.node.file_rows import FileRows
from engine.node.host_gate import HostGates
from engine.node.loading.group_loaders import GroupLoaders
from engine.node.named_hosts import NamedHosts
from engine.node.outcomes import OutcomeBuilder
from engine.node.page_extractor import PageExtractor
from engine.node.page_fetch import FetchedPage, PageFetcher, StoredTarget
from engine.node.redirect_rule import RedirectRule
from engine.node.reextraction import Reextractor
from engine.node.request_sender import RequestSender
from engine.node.revalidation import StoredVersion
from engine.node.robots_cache import RobotsCache
from engine.node.robots_job import RobotsHandler
from engine.node.row_reuse import PageReuse, RowReuse
from engine.node.secrets import SecretValues
from engine.node.sitemap_job import SitemapHandler
from engine.settings import Settings
from engine.store.pages.body import Body
from engine.store.pages.documents import CheckedDocument, NewDocument, StoredBody, robots_tags
from engine.store.transactions.outcome import JobOutcome

_MAX_ANSWER_KEPT = 64 * 1024
"""Bytes of a failed answer that are kept."""


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
        secrets: SecretValues,
        page_extractor: PageExtractor,
        named_hosts: NamedHosts,
        host_gates: HostGates,
        byte_budget: ByteBudget,
        group_loaders: GroupLoaders | None = None,
        file_parts: FileParts | None = None,
    ) -> None:
        """`source` names this node in events.

        `byte_budget` is what the bodies of all jobs may hold together, from reading to the commit.
        """
        self._settings = settings
        self._def_cache = def_cache
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._outcomes = OutcomeBuilder(source=source, max_attempts=settings.max_attempts)
        self._redirect_rule = RedirectRule(named_hosts)
        self._sender = RequestSender(
            fetcher=fetcher,
            db_access=db_access,
            def_cache=def_cache,
            secrets=secrets,
            named_hosts=named_hosts,
            host_gates=host_gates,
            byte_budget=byte_budget,
            settings=settings,
            group_loaders=group_loaders,
            file_parts=file_parts,
        )
        self._row_reuse = RowReuse(def_cache, db_access)
        self._file_rows = FileRows(def_cache)
        self._reextractor = Reextractor(
            db_access=db_access, page_extractor=page_extractor, outcomes=self._outcomes, row_reuse=self._row_reuse,
            file_rows=self._file_rows,
        )  # fmt: skip
        self._sitemap_handler = SitemapHandler(settings.max_body, page_extractor, db_access, def_cache)
        agent = product_token(settings.user_agent)
        robots_cache = RobotsCache(db_access, agent)
        self._page_fetcher = PageFetcher(
            settings=settings,
            sender=self._sender,
            db_access=db_access,
            def_cache=def_cache,
            robots_cache=robots_cache,
            outcomes=self._outcomes,
            redirect_rule=self._redirect_rule,
        )
        self._file_handler = None if file_parts is None else FileHandler(
            page_fetcher=self._page_fetcher, parts=file_parts, outcomes=self._outcomes, db_access=db_access
        )  # fmt: skip
        self._robots_handler = RobotsHandler(self._page_fetcher, self._outcomes, robots_cache, agent)

    async def admit(self, job: LeasedJob) -> JobOutcome | None:
        """Wait until the job may send its request, if it sends one; or the outcome that gives it back."""
        if job.kind is JobKind.EXTRACT or job.stored is not None:
            return None
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
        finally:
            share = self._sender.take_share(job)
            if share is not None:
                if outcome is not None and (outcome.document is not None or outcome.rows or outcome.held):
                    outcome.release_when_settled(share.release)
                else:
                    share.release()
        self._sender.complete(outcome)
        if job.kind is JobKind.PAGE:
            outcome.keeps_document = self._def_cache.keeps_documents(job)
        return outcome

    def forget(self, job: LeasedJob) -> None:
        """Free what is kept of a job, however it ended."""
        self._sender.forget(job)

    async def aclose(self) -> None:
        """Close all connections, end the extraction processes."""
        self._page_extractor.close()
        await self._sender.aclose()

    async def _process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        if job.stored is not None:
            refusal = self._redirect_rule.refusal(job, job.url, job.stored.url)
            if refusal is not None:
                return self._outcomes.ended(job, JobState.SKIPPED, refusal, job.stored.url)
            return await self._process_stored(job, job.stored)
        started()
        if job.kind is JobKind.ROBOTS:
            return await self._robots_handler.read(job)
        if job.kind is JobKind.FILE and self._file_handler is not None:
            return await self._file_handler.download(job, self._sender.dismiss)
        fetched = await self._page_fetcher.fetch(job)
        self._sender.dismiss(job)
        if isinstance(fetched, FetchedPage):
            if job.kind is JobKind.SITEMAP:
                return await self._read_sitemap(job, fetched)
            return await self._process_fetched(job, fetched)
        if isinstance(fetched, StoredTarget):
            chain = fetched.chain
            return await self._process_stored(job, fetched.stored, hops=chain.hops, target=chain.url)
        return fetched

    async def _read_sitemap(self, job: LeasedJob, fetched: FetchedPage) -> JobOutcome:
        url, hops, response = fetched.chain.url, fetched.chain.hops, fetched.response
        if response.refusal is not None:
            return self._outcomes.refused(job, url, response)
        if classify_status(response.status) == "retry":
            return self._outcomes.retry(job, url, f"HTTP {response.status}")
        if classify_status(response.status) != "ok":
            return self._outcomes.failed(job, f"HTTP {response.status}", url, hops)
        try:
            children = await self._sitemap_handler.list_children(
                job, url, response.take_body(), self._sender.share(job)
            )
        except FetchFailed as failure:
            return self._outcomes.fetch_failed(job, url, failure)
        except UnreadablePage as error:
            return self._outcomes.ended(job, JobState.FAILED, str(error), url, hops=hops)
        text, dropped = f"{job.url}: {children.entries} entries", children.dropped
        if children.denied:
            text += f"; {children.denied} not followed, by the rules of the sitemap"
        if dropped:
            text += f"; {dropped} beyond the {MAX_SITEMAP_URLS:,} that the sitemap protocol allows are dropped"
        event = self._outcomes.event(job, "INFO" if children.entries and not dropped else "WARNING", text)
        outcome = JobOutcome(
            job=job, state=JobState.DONE, attempts=1, hops=hops, children=children.first, later_children=children.later,
            events=(event,),
        )  # fmt: skip
        if children.share is not None:
            outcome.release_when_settled(children.share.release)
        return outcome

    async def _process_fetched(self, job: LeasedJob, fetched: FetchedPage) -> JobOutcome:
        """The outcome of a job from the final response of its fetch."""
        if fetched.is_unchanged and fetched.before is not None:
            return await self._process_unchanged(job, fetched, fetched.before)
        response, chain = fetched.response, fetched.chain
        url, hops, status = chain.url, chain.hops, response.status
        document = NewDocument(
            keys=tuple(reversed(chain.keys)),
            url=urls.without_credentials(url),
            status=status,
            content_type=response.content_type,
            fetched_at=time.time(),
            headers=redact_headers(response.headers),
            body=Body(response.take_body()),
        )
        if response.refusal is not None:
            return _keep_answer(self._outcomes.refused(job, url, response), document)
        match self._classify(job, url, chain.request, status):
            case "ok":
                document.recrawl_after = self._recrawl_after(job, fetched.before, document)
                outcome = await self._extract(
                    job, StoredBody(document.body, robots_tags(response.headers)), response.content_type, document.url,
                    status, document.fetched_at, f"{response.elapsed * 1000:.0f} ms", hops,
                    self._row_reuse.find(job, None),
                )  # fmt: skip
                outcome.document, outcome.attempts, outcome.target = document, 1, url if hops else None
                return outcome
            case "no-page":
                empty = self._outcomes.not_a_page(job, no_page_reason(status), url, hops=hops)
                empty.document, empty.attempts = document, 1
                return empty
            case "gone":
                gone = self._outcomes.not_a_page(job, f"HTTP {status} (gone)", url, hops=hops)
                gone.document, gone.attempts, gone.gone = document, 1, True
                return gone
            case "retry":
                return _keep_answer(self._outcomes.retry(job, url, f"HTTP {status}"), document)
            case _:
                refused = self._outcomes.failed(job, refused_reason(status), url, hops)
                refused.document = document
                return refused

    async def _process_unchanged(self, job: LeasedJob, fetched: FetchedPage, before: StoredVersion) -> JobOutcome:
        """The outcome of a job whose stored document is the newest version, as the site says."""
        chain, response = fetched.chain, fetched.response
        outcome = await self._process_stored(
            job, before.stored, hops=chain.hops, target=chain.url if chain.hops else None,
            answer=(response.status, f"{response.elapsed * 1000:.0f} ms"),
        )  # fmt: skip
        after = self._recrawl_after(job, before, None)
        outcome.attempts = 1
        outcome.checked = CheckedDocument(before.stored.page, time.time(), after, tuple(chain.keys[:-1]))
        return outcome

    def _recrawl_after(
        self, job: LeasedJob, before: StoredVersion | None, document: NewDocument | None
    ) -> float | None:
        """Seconds after which the page is asked for again; None: its group does not say. No document: it is unchanged.

        A page has changed if its bytes have.
        """
        recrawl = self._def_cache.task_group(job.defs_version, job.group).recrawl
        if recrawl is None:
            return None
        if before is None:
            return recrawl.clamp(None)
        changed = document is not None and document.digest != before.digest
        return recrawl.following(before.stored.recrawl_after, changed=changed)

    async def _process_stored(
        self,
        job: LeasedJob,
        stored: StoredPage,
        *,
        hops: int = 0,
        target: str | None = None,
        answer: tuple[int, str] | None = None,
    ) -> JobOutcome:
        """The outcome of a job from a document that was fetched before; a stored error status counts for it too.

        `answer`: status and time of the answer by which it serves, for the event.
        """
        status_class = self._classify(job, stored.url, job.request, stored.status)
        if status_class == "no-page":
            return self._outcomes.not_a_page(job, no_page_reason(stored.status), stored.url, hops=hops)
        if status_class == "gone":
            return self._outcomes.not_a_page(job, f"HTTP {stored.status} (gone)", stored.url, hops=hops)
        if status_class != "ok":
            return self._outcomes.ended(job, JobState.FAILED, f"HTTP {stored.status}", stored.url, hops=hops)
        reuse = self._row_reuse.find(job, stored)
        if reuse is not None and reuse.links is not None:
            outcome = self._outcomes.copied(job, stored, reuse.records, hops=hops, answer=answer)
            outcome.children = self._page_extractor.make_children(job, reuse.links)
            outcome.page, outcome.target, outcome.copies = stored.page, target, reuse.copies
            return outcome
        share = self._sender.share(job)
        await share.grow(stored.size)
        share.finish_reading()
        body = self._db_access.page_body(stored.page)
        if body is None:
            return self._outcomes.ended(job, JobState.FAILED, "its stored page is missing", stored.url, hops=hops)
        outcome = await self._extract(
            job, body, stored.content_type, stored.url, stored.status, stored.fetched_at, "stored", hops, reuse, answer
        )
        outcome.page, outcome.target = stored.page, target
        if reuse and outcome.state is JobState.DONE and not (outcome.noindex and self._settings.meta_noindex):
            outcome.copies = reuse.copies
        return outcome

    def _classify(self, job: LeasedJob, url: str, request: Request, status: int) -> StatusClass:
        """The class of a page's status; a 206 is a page only where the defs ask for a part."""
        if status == 206 and self._sender.asks_for_part(job, url, request):
            return "ok"
        return classify_status(status)

    async def _extract(
        self,
        job: LeasedJob,
        content: StoredBody,
        content_type: str,
        url: str,
        status: int,
        fetched_at: float,
        fetch_time: str,
        hops: int,
        reuse: PageReuse | None = None,
        answer: tuple[int, str] | None = None,
    ) -> JobOutcome:
        try:
            extraction = await self._page_extractor.extract(
                job, body=content.body, content_type=content_type, url=url, status=status, fetched_at=fetched_at,
                robots_tags=content.robots_tags, copied=reuse.copied if reuse else None,
            )  # fmt: skip
        except UnsupportedContent as error:
            return self._outcomes.not_a_page(job, f"not a page: {error}", url, hops=hops)
        except UnreadablePage as error:
            return self._outcomes.ended(job, JobState.FAILED, str(error), url, hops=hops)
        self._file_rows.hold(job, extraction, url)
        shown_status, shown_time = answer or (status, fetch_time)
        outcome = self._outcomes.extracted(
            job, extraction, status=shown_status, url=url, fetch_time=shown_time, size=content.body.size, hops=hops,
            copied=reuse.records if reuse else 0,
        )  # fmt: skip
        self._row_reuse.record(job, extraction, outcome, url)
        return outcome


def _keep_answer(outcome: JobOutcome, document: NewDocument) -> JobOutcome:
    """The outcome; where it is FAILED, with the beginning of the answer, for people to read: no job works on it."""
    if outcome.state is JobState.FAILED:
        document.keys, document.body = (), Body(document.body.read()[:_MAX_ANSWER_KEPT])
        outcome.document = document
    return outcome
