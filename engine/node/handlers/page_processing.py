"""Turns a fetched or stored page into the outcome of its job."""

import time

from engine import urls
from engine.http.response import redact_headers
from engine.model.job import JobState, LeasedJob, Request, StoredPage
from engine.model.retry_policy import StatusClass, no_page_reason, refused_reason
from engine.node.db_access import DbAccess
from engine.node.extraction.extractor import PageExtractor
from engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from engine.node.handlers.file_rows import FileRows
from engine.node.handlers.freshness import Revalidation, StoredVersion
from engine.node.handlers.login_page import LoginGuard
from engine.node.handlers.page_fetch import FetchedPage
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.request_sender import RequestSender
from engine.store.pages.body import Body
from engine.store.pages.documents import CheckedDocument, NewDocument, StoredBody, robots_tags
from engine.store.tables.host.hosts import HostFailure
from engine.store.tables.outcome import JobOutcome
from engine.store.transactions.logins import LoginNews

_MAX_ANSWER_KEPT = 64 * 1024
"""Bytes of a failed answer that are kept."""


class PageProcessor:
    """One for each node, beside its pipeline."""

    def __init__(
        self,
        *,
        sender: RequestSender,
        db_access: DbAccess,
        page_extractor: PageExtractor,
        outcomes: OutcomeBuilder,
        file_rows: FileRows,
        revalidation: Revalidation,
        login_guard: LoginGuard,
    ) -> None:
        self._sender = sender
        self._db_access = db_access
        self._page_extractor = page_extractor
        self._outcomes = outcomes
        self._file_rows = file_rows
        self._revalidation = revalidation
        self._login_guard = login_guard

    async def process_fetched(self, job: LeasedJob, fetched: FetchedPage) -> JobOutcome:
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
                document.recrawl_after = self._revalidation.recrawl_after(job, fetched.before, document)
                login = self._login_guard.rule(job, url)
                outcome = await self._extract(
                    job, StoredBody(document.body, robots_tags(response.headers)), response.content_type, document.url,
                    status, document.fetched_at, f"{response.elapsed * 1000:.0f} ms", hops,
                    check=login.check or "" if login else "",
                )  # fmt: skip
                lost = outcome.find(LoginNews)
                if lost is not None and login is not None:
                    lost.on_lost = login.on_lost
                    return outcome  # this page is what anonymous visitors see: it is not stored
                outcome.attempts, outcome.target = 1, url if hops else None
                return outcome.add(document)
            case "no-page":
                empty = self._outcomes.not_a_page(job, no_page_reason(status), url, hops=hops)
                empty.attempts = 1
                return empty.add(document)
            case "gone":
                gone = self._outcomes.not_a_page(job, f"HTTP {status} (gone)", url, hops=hops)
                gone.attempts = 1
                return gone.add(document, HostFailure(failed=False, gone=True))
            case "retry":
                return _keep_answer(self._outcomes.retry_status(job, url, response), document)
            case _:
                return self._outcomes.failed(job, refused_reason(status), url, hops).add(document)

    async def _process_unchanged(self, job: LeasedJob, fetched: FetchedPage, before: StoredVersion) -> JobOutcome:
        """The outcome of a job whose stored document is the newest version, as the site says."""
        chain, response = fetched.chain, fetched.response
        outcome = await self.process_stored(
            job, before.stored, hops=chain.hops, target=chain.url if chain.hops else None,
            answer=(response.status, f"{response.elapsed * 1000:.0f} ms"),
        )  # fmt: skip
        after = self._revalidation.recrawl_after(job, before, None)
        outcome.attempts = 1
        return outcome.add(CheckedDocument(before.stored.page, time.time(), after, tuple(chain.keys[:-1])))

    async def process_stored(
        self,
        job: LeasedJob,
        stored: StoredPage,
        *,
        hops: int = 0,
        target: str | None = None,
        answer: tuple[int, str] | None = None,
    ) -> JobOutcome:
        """The outcome of a job from a document that was fetched before; a stored error status counts, too.

        `answer`: status and time of the answer that confirmed it, for the event.
        """
        status_class = self._classify(job, stored.url, job.request, stored.status)
        if status_class == "no-page":
            return self._outcomes.not_a_page(job, no_page_reason(stored.status), stored.url, hops=hops)
        if status_class == "gone":
            return self._outcomes.not_a_page(job, f"HTTP {stored.status} (gone)", stored.url, hops=hops)
        if status_class != "ok":
            return self._outcomes.ended(job, JobState.FAILED, f"HTTP {stored.status}", stored.url, hops=hops)
        share = self._sender.share(job)
        await share.grow(stored.size)
        share.finish_reading()
        body = self._db_access.page_body(stored.page)
        if body is None:
            return self._outcomes.ended(job, JobState.FAILED, "its stored page is missing", stored.url, hops=hops)
        outcome = await self._extract(
            job, body, stored.content_type, stored.url, stored.status, stored.fetched_at, "stored", hops, answer=answer
        )
        outcome.page, outcome.target = stored.page, target
        return outcome

    def _classify(self, job: LeasedJob, url: str, request: Request, status: int) -> StatusClass:
        """The class of a page's status; a 206 is a page only if the defs ask for a part."""
        if status == 206 and self._sender.asks_for_part(job, url, request):
            return "ok"
        return self._outcomes.classify(job, url, status)

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
        answer: tuple[int, str] | None = None,
        check: str = "",
    ) -> JobOutcome:
        try:
            extraction = await self._page_extractor.extract(
                job, body=content.body, content_type=content_type, url=url, status=status, fetched_at=fetched_at,
                robots_tags=content.robots_tags, check=check,
            )  # fmt: skip
        except UnsupportedContent as error:
            return self._outcomes.not_a_page(job, f"not a page: {error}", url, hops=hops)
        except UnreadablePage as error:
            return self._outcomes.ended(job, JobState.FAILED, str(error), url, hops=hops)
        await self._file_rows.hold(job, extraction, url)
        shown_status, shown_time = answer or (status, fetch_time)
        return self._outcomes.extracted(
            job, extraction, status=shown_status, url=url, fetch_time=shown_time, size=content.body.size, hops=hops
        )


def _keep_answer(outcome: JobOutcome, document: NewDocument) -> JobOutcome:
    """Add the beginning of the answer to a FAILED outcome, for people to read: no job uses it."""
    if outcome.state is JobState.FAILED:
        document.keys, document.body = (), Body(document.body.read()[:_MAX_ANSWER_KEPT])
        outcome.add(document)
    return outcome
