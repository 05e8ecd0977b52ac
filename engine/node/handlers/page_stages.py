"""The stages of a page: stored or fetched, its status, body, extraction, login, files."""

import time
from typing import Protocol

from msgspec import Struct

from engine import urls
from engine.http.response import redact_headers
from engine.model.host import LoginRule
from engine.model.job import JobKind, JobState, LeasedJob, StoredPage
from engine.model.retry_policy import no_page_reason, refused_reason
from engine.node.db_access import DbAccess
from engine.node.extraction.extractor import PageExtractor
from engine.node.extraction.page_extraction import LOGGED_OUT, REPEATED, UnreadablePage, UnsupportedContent
from engine.node.extraction.result import PageExtraction
from engine.node.handlers.file_rows import FileRows
from engine.node.handlers.freshness import Revalidation
from engine.node.handlers.login_page import LoginGuard
from engine.node.handlers.page_fetch import FetchedPage, PageFetcher, StoredTarget
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.named_hosts import RedirectRule
from engine.node.requests.request_sender import RequestSender
from engine.store.pages.body import Body
from engine.store.pages.documents import CheckedDocument, NewDocument, StoredBody, robots_tags
from engine.store.tables.host.hosts import HostFailure
from engine.store.tables.outcome import JobOutcome
from engine.store.transactions.supersede import OldRows

_MAX_ANSWER_KEPT = 64 * 1024
"""Bytes of a failed answer that are kept."""


class VisitedPage(Struct, kw_only=True):
    """A page on its way through the stages of its job: each adds what the next ones need."""

    fetched: FetchedPage | None = None
    stored: StoredPage | None = None
    """The document that was fetched before."""
    document: NewDocument | None = None
    """The document that was fetched now."""
    checked: CheckedDocument | None = None
    """The stored document, if the site says that it is unchanged."""
    url: str = ""
    status: int = 0
    content_type: str = ""
    fetched_at: float = 0.0
    answer: tuple[int, str] = (0, "stored")
    """Status and time for the event."""
    hops: int = 0
    target: str | None = None
    login: LoginRule | None = None
    """How to log in to its host, if it was fetched after a login."""
    content: StoredBody | None = None
    extraction: PageExtraction | None = None
    old_rows: OldRows | None = None
    """The rows that a re-extraction replaces."""

    @classmethod
    def from_stored(cls, stored: StoredPage, *, hops: int = 0, target: str | None = None) -> "VisitedPage":
        return cls(
            stored=stored, url=stored.url, status=stored.status, content_type=stored.content_type,
            fetched_at=stored.fetched_at, answer=(stored.status, "stored"), hops=hops, target=target,
        )  # fmt: skip

    def complete(self, outcome: JobOutcome) -> JobOutcome:
        """Add the document of the page to the outcome of its job."""
        if self.document is not None or self.checked is not None:
            outcome.attempts = 1
        outcome.add(*[effect for effect in (self.document, self.checked, self.old_rows) if effect is not None])
        if self.content is not None and outcome.job.kind is JobKind.PAGE:
            outcome.target = self.target
            if self.stored is not None:
                outcome.page = self.stored.page
        return outcome


class PageStage(Protocol):
    """One step of the work on a job, the same for all jobs of a node. The pipeline lists the stages of each kind."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        """The page for the next stage, or the outcome that ends the job."""


class StoredOrFetched(Struct, frozen=True):
    """Fetches the page, unless a stored document replaces that."""

    page_fetcher: PageFetcher
    sender: RequestSender
    redirect_rule: RedirectRule
    revalidation: Revalidation
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.stored is not None:
            refusal = self.redirect_rule.refusal(job, job.url, page.url)
            return page if refusal is None else self.outcomes.ended(job, JobState.SKIPPED, refusal, page.url)
        fetched = await self.page_fetcher.fetch(job)
        self.sender.dismiss(job)
        if isinstance(fetched, JobOutcome):
            return fetched
        chain = fetched.chain
        if isinstance(fetched, StoredTarget):
            return VisitedPage.from_stored(fetched.stored, hops=chain.hops, target=chain.url)
        target = chain.url if chain.hops else None
        answer = fetched.response.status, f"{fetched.response.elapsed * 1000:.0f} ms"
        if fetched.is_unchanged and fetched.before is not None:
            unchanged = VisitedPage.from_stored(fetched.before.stored, hops=chain.hops, target=target)
            after = self.revalidation.recrawl_after(job, fetched.before, None)
            earlier_keys = tuple(chain.keys[:-1])
            unchanged.checked = CheckedDocument(fetched.before.stored.page, time.time(), after, earlier_keys)
            unchanged.answer = answer
            return unchanged
        return VisitedPage(
            fetched=fetched, url=urls.without_credentials(chain.url), status=fetched.response.status,
            content_type=fetched.response.content_type, fetched_at=time.time(), answer=answer, hops=chain.hops,
            target=target,
        )  # fmt: skip


class JudgeStatus(Struct, frozen=True):
    """Ends jobs whose page has no content, by its status; a stored error status counts, too."""

    sender: RequestSender
    revalidation: Revalidation
    login_guard: LoginGuard
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        fetched = page.fetched
        if fetched is not None:
            page.document = NewDocument(
                keys=tuple(reversed(fetched.chain.keys)), url=page.url, status=page.status,
                content_type=page.content_type, fetched_at=page.fetched_at,
                headers=redact_headers(fetched.response.headers), body=Body(fetched.response.take_body()),
            )  # fmt: skip
            if fetched.response.refusal is not None:
                return _keep_answer(self.outcomes.refused(job, page.url, fetched.response), page.document)
        request = job.request if fetched is None else fetched.chain.request
        is_part = page.status == 206 and self.sender.asks_for_part(job, page.url, request)
        match "ok" if is_part else self.outcomes.classify(job, page.url, page.status):
            case "ok":
                if fetched is not None and page.document is not None:
                    page.document.recrawl_after = self.revalidation.recrawl_after(job, fetched.before, page.document)
                    page.login = self.login_guard.rule(job, page.url)
                    page.content = StoredBody(page.document.body, robots_tags(fetched.response.headers))
                return page
            case "no-page":
                reason = no_page_reason(page.status)
                return page.complete(self.outcomes.not_a_page(job, reason, page.url, hops=page.hops))
            case "gone":
                reason = f"HTTP {page.status} (gone)"
                gone = self.outcomes.not_a_page(job, reason, page.url, hops=page.hops)
                return page.complete(gone if fetched is None else gone.add(HostFailure(failed=False, gone=True)))
            case "retry" if fetched is not None and page.document is not None:
                return _keep_answer(self.outcomes.retry_status(job, page.url, fetched.response), page.document)
            case _ if fetched is None:
                failed = self.outcomes.ended(job, JobState.FAILED, f"HTTP {page.status}", page.url, hops=page.hops)
                return page.complete(failed)
            case _:
                return page.complete(self.outcomes.failed(job, refused_reason(page.status), page.url, page.hops))


class ReadBody(Struct, frozen=True):
    """Reads the body of a stored page, within the node's budget of bytes."""

    sender: RequestSender
    db_access: DbAccess
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.content is not None:
            return page
        if page.stored is not None:
            share = self.sender.share(job)
            await share.grow(page.stored.size)
            share.finish_reading()
            page.content = self.db_access.page_body(page.stored.page)
        if page.content is None:
            return page.complete(self.outcomes.unreadable(job, "its stored page is missing", page.url, page.hops))
        return page


class Extract(Struct, frozen=True):
    """Extracts rows and links; a login check and the canonical URL are read with them."""

    page_extractor: PageExtractor
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        assert page.content is not None
        check = page.login.check or "" if page.login else ""
        try:
            page.extraction = await self.page_extractor.extract(
                job, body=page.content.body, content_type=page.content_type, url=page.url, status=page.status,
                fetched_at=page.fetched_at, robots_tags=page.content.robots_tags, check=check,
            )  # fmt: skip
        except UnsupportedContent as error:
            return page.complete(self.outcomes.unsupported(job, f"not a page: {error}", page.url, page.hops))
        except UnreadablePage as error:
            return page.complete(self.outcomes.unreadable(job, str(error), page.url, page.hops))
        if job.kind is JobKind.EXTRACT:
            page.old_rows = OldRows(self.page_extractor.unchanged_data_defs(job))
        return page


class CheckLogin(Struct, frozen=True):
    """Ends jobs whose page is what anonymous visitors see: it is not stored."""

    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.extraction is None or page.extraction.replaced_by != LOGGED_OUT or page.login is None:
            return page
        return self.outcomes.logged_out(job, page.url, "the page lacks `check`", page.login.on_lost)


class CheckCanonical(Struct, frozen=True):
    """Ends jobs whose page another one replaces: its canonical URL, or the page before it in its series."""

    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.extraction is None or not page.extraction.replaced_by:
            return page
        if page.extraction.replaced_by == REPEATED:
            return page.complete(self.outcomes.repeated(job, page.url, page.hops))
        return page.complete(self.outcomes.replaced(job, page.extraction, page.url, page.hops))


class HoldFiles(Struct, frozen=True):
    """Sets aside the rows that name files."""

    file_rows: FileRows

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.extraction is not None:
            await self.file_rows.hold(job, page.extraction, page.url)
        return page


class Finish(Struct, frozen=True):
    """Ends the job with what was extracted."""

    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        assert page.content is not None
        assert page.extraction is not None
        status, shown_time = page.answer
        return page.complete(
            self.outcomes.extracted(
                job, page.extraction, status=status, url=page.url, fetch_time=shown_time, size=page.content.body.size,
                hops=page.hops,
            )
        )  # fmt: skip


def _keep_answer(outcome: JobOutcome, document: NewDocument) -> JobOutcome:
    """Add the beginning of the answer to a FAILED outcome, for people to read: no job uses it."""
    if outcome.state is JobState.FAILED:
        document.keys, document.body = (), Body(document.body.read()[:_MAX_ANSWER_KEPT])
        outcome.add(document)
    return outcome
