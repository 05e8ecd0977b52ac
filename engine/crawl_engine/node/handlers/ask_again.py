"""Asks for pages again that came with a good status, but lack what a page should have."""

from crawl_engine.http.challenge import find_retry_text
from crawl_engine.model.job import HostPlan, JobState, LeasedJob
from crawl_engine.model.step import REQUIRED_FIELDS
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction.page_extraction import INCOMPLETE
from crawl_engine.node.handlers.page_stages import keep_answer
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.tables.outcome import JobOutcome


class RetryText(PageStage, frozen=True):
    """Retries a page with a text that its host sends in place of pages."""

    outcomes: OutcomeBuilder

    def applies(self, plan: HostPlan) -> bool:
        return bool(plan.retry.match)

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.response is None or page.document is None:
            return page
        text = find_retry_text(page.document.body.read(), job.plan.retry.match)
        return page if text is None else _retry(self.outcomes, job, page, page.document, f"{text!r} on the page")


class RetryIncomplete(PageStage, frozen=True):
    """Retries a page that lacks what the pages of its host must have."""

    outcomes: OutcomeBuilder

    def applies(self, plan: HostPlan) -> bool:
        return plan.retry.missing is not None

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if page.response is None or page.document is None or page.extraction is None:
            return page
        missing, result = job.plan.retry.missing, page.extraction.result
        if missing == REQUIRED_FIELDS:
            missing, is_incomplete = "a required field", not result.replaced_by and result.lacks_rows
        else:
            missing, is_incomplete = f"`{missing}`", result.replaced_by == INCOMPLETE
        if not is_incomplete:
            return page
        return _retry(self.outcomes, job, page, page.document, f"the page lacks {missing}")


class ConfirmEnd(PageStage, frozen=True):
    """Asks once more for a page that would end its chain because nothing is on it: that may pass."""

    db_access: DbAccess
    outcomes: OutcomeBuilder

    def applies(self, plan: HostPlan) -> bool:
        return plan.group.confirm_end

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        extraction = page.extraction
        if extraction is None or not page.attempt.requests or page.checked is not None:
            return page  # nothing was sent, or the site says that the stored page is the newest
        if not extraction.result.shows_nothing or self.db_access.was_asked_again(job):
            return page
        return _let_go(page, self.outcomes.asked_again(job, page.url, "nothing on the page"))


def _retry(
    outcomes: OutcomeBuilder, job: LeasedJob, page: VisitedPage, document: NewDocument, reason: str
) -> JobOutcome:  # fmt: skip
    outcome = keep_answer(outcomes.retry(job, page.url, reason), document)
    if outcome.state is JobState.FAILED:
        outcome.hops = page.hops
    return _let_go(page, outcome)


def _let_go(page: VisitedPage, outcome: JobOutcome) -> JobOutcome:
    """Release what the extraction holds, once the outcome is settled."""
    if page.extraction is not None and page.extraction.share is not None:
        outcome.release_when_settled(page.extraction.share.release)
    return outcome
