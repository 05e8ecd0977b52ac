"""The stages of a page that is there: its status, body, extraction, files."""

from msgspec import field

from crawl_engine.http.redirects import build_target_request
from crawl_engine.http.request import cookies_along
from crawl_engine.http.response import redact_headers
from crawl_engine.model.job import (
    HostPlan,
    JobKind,
    JobState,
    LeasedJob,
    Request,
    document_key,
    landing_key,
    link_key,
    scoped_key,
)
from crawl_engine.model.retry_policy import classify_status, no_page_reason, refused_reason
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from crawl_engine.node.handlers.file_rows import FileRows
from crawl_engine.node.handlers.freshness import Revalidation
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules import RulesOfPlans, judge_lack
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.landings import Landed, has_own_values
from crawl_engine.store.transactions.supersede import OldRows

_MAX_ANSWER_KEPT = 64 * 1024
"""Bytes of a failed answer that are kept."""


class JudgeStatus(PageStage, frozen=True):
    """Ends jobs whose page has no content, by its status; a stored error status counts, too."""

    revalidation: Revalidation
    outcomes: OutcomeBuilder
    kept_refusals: set[tuple[int, str]] = field(default_factory=set)
    """The hosts and reasons of refusals whose answer is kept."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        response, chain, request = page.response, page.chain, job.request
        if response is not None and chain is not None:
            request = chain.request
            page.document = NewDocument(
                keys=tuple(reversed(chain.keys)), url=page.url, status=page.status, content_type=page.content_type,
                fetched_at=page.fetched_at, headers=redact_headers(response.headers), body=Body(response.take_body()),
                loader=job.plan.loading,
            )  # fmt: skip
            if response.refusal is not None:
                refusal, outcome = (job.host, response.refusal), self.outcomes.refused(job, page.url, response)
                is_new = refusal not in self.kept_refusals
                self.kept_refusals.add(refusal)
                return keep_answer(outcome, page.document, is_new=is_new)
        is_part = page.status == 206 and _asks_for_part(job, request)
        match "ok" if is_part else classify_status(page.status, job.plan.retry.statuses):
            case "ok":
                if response is not None and page.document is not None:
                    page.document.recrawl_after = self.revalidation.recrawl_after(job, page.before, page.document)
                    page.login = job.login
                    page.content = StoredBody(page.document.body, page.document.headers)
                return page
            case "no-page":
                reason = no_page_reason(page.status)
                return page.complete(self.outcomes.not_a_page(job, reason, page.url, hops=page.hops))
            case "gone":
                reason = f"HTTP {page.status} (gone)"
                gone = self.outcomes.not_a_page(job, reason, page.url, hops=page.hops)
                return page.complete(gone if response is None else gone.add(HostFailure(failed=False, gone=True)))
            case "retry" if response is not None and page.document is not None:
                return keep_answer(self.outcomes.retry_status(job, page.url, response), page.document)
            case _ if response is None:
                failed = self.outcomes.ended(job, JobState.FAILED, f"HTTP {page.status}", page.url, hops=page.hops)
                return page.complete(failed)
            case _:
                return page.complete(self.outcomes.failed(job, refused_reason(page.status), page.url, page.hops))


class ReadBody(PageStage, frozen=True):
    """Reads the body of a stored page, within the node's budget of bytes."""

    db_access: DbAccess
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.content is not None:
            return page
        if page.stored is not None:
            await page.attempt.share.grow(page.stored.size)
            page.attempt.share.finish_reading()
            page.content = await self.db_access.page_body(page.stored.page)
            if page.content is not None and page.stored.headers is not None:
                page.content = page.content._replace(headers=page.stored.headers)
        if page.content is None:
            missing = "its stored page is missing"
            if page.stored is None or job.kind is JobKind.EXTRACT:
                return page.complete(self.outcomes.unreadable(job, missing, page.url, page.hops))
            again = self.outcomes.retry(job, page.url, missing, at_once=True, when="now")  # deleted since the lease
            again.remove(HostFailure)
            return again
        return page


class Extract(PageStage, frozen=True):
    """Extracts rows and links; the rules of the page judge it there."""

    page_extractor: PageExtractor
    outcomes: OutcomeBuilder
    rules: RulesOfPlans

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        assert page.content is not None
        rules = self.rules.prepare(job, page)
        try:
            page.extraction = await self.page_extractor.extract(
                job, body=page.content.body, content_type=page.content_type, url=page.url, status=page.status,
                fetched_at=page.fetched_at, headers=page.content.headers,
                rules=rules,
            )  # fmt: skip
        except UnsupportedContent as error:
            return page.complete(self.outcomes.unsupported(job, f"not a page: {error}", page.url, page.hops))
        except UnreadablePage as error:
            return page.complete(self.outcomes.unreadable(job, str(error), page.url, page.hops))
        result = page.extraction.result
        self.rules.remember(job, result.parts)
        if result.lacks_rows:
            result.parts = judge_lack(rules, result.parts)
        if page.response is not None and page.response.notes:
            page.extraction.notes = (*page.response.notes, *page.extraction.notes)
        if job.kind is JobKind.EXTRACT:
            # a page that gives no rows now loses those of its unchanged dataDefs, too
            kept = self.page_extractor.unchanged_data_defs(job) if result.parts.keeps_rows else ()
            page.add(OldRows(kept))
        return page


class HoldFiles(PageStage, frozen=True):
    """Sets aside the rows that name files."""

    file_rows: FileRows

    def applies(self, plan: HostPlan) -> bool:
        return bool(plan.file_fields)

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.extraction is not None:
            await self.file_rows.hold(job, page.extraction, page.url)
        return page


class Finish(PageStage, frozen=True):
    """Ends the job with what was extracted."""

    outcomes: OutcomeBuilder
    settings: Settings

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        assert page.content is not None
        assert page.extraction is not None
        status, shown_time = page.answer
        outcome = self.outcomes.extracted(
            job, page.extraction, status=status, url=page.url, fetch_time=shown_time, size=page.content.body.size,
            hops=page.hops, has_surplus=page.response is not None and page.response.has_surplus,
        )  # fmt: skip
        for part in page.extraction.result.parts.values():
            part.add_to(outcome, self.settings)
        if page.hops or (page.stored is not None and page.stored.url != job.url and job.kind is JobKind.PAGE):
            outcome.add(*_find_landing(job, page))
        return page.complete(outcome)


def _find_landing(job: LeasedJob, page: VisitedPage) -> tuple[Landed, ...]:
    """Where a plain page is to which redirects have led."""
    if page.chain is not None and page.hops:
        request = page.chain.request
    else:  # it was stored when redirects led to it
        request = build_target_request(job.request, job.url, page.url)
    if page.url == job.url or not job.request.is_plain_get or not request.is_plain_get:
        return ()
    document = document_key(page.url, variant=request.variant)
    key = landing_key(job.group, document)
    page_key = scoped_key(link_key(job.group, page.url), cookies_along(job, job.group, page.url))
    return (Landed(key, page_key, has_own_values(job)),)


def _asks_for_part(job: LeasedJob, request: Request) -> bool:
    """Whether the defs set a `Range` header, for the request or its host."""
    return any(name.lower() == "range" for name in (*job.plan.rule.headers, *(name for name, _ in request.headers)))


def keep_answer(outcome: JobOutcome, document: NewDocument, *, is_new: bool = False) -> JobOutcome:
    """Add the beginning of the answer to a FAILED outcome, or of a new refusal, for people to read: no job uses it."""
    if outcome.state is JobState.FAILED or is_new:
        document.keys, document.body = (), Body(document.body.read()[:_MAX_ANSWER_KEPT])
        outcome.add(document)
    return outcome
