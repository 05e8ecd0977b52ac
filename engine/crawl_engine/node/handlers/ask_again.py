"""Asks for pages again that hold a text which their host sends in place of pages."""

from crawl_engine.http.challenge import find_retry_text
from crawl_engine.model.job import HostPlan, JobState, LeasedJob
from crawl_engine.node.handlers.page_stages import keep_answer
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
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
        return page if text is None else retry_page(self.outcomes, job, page, f"{text!r} on the page")


def retry_page(outcomes: OutcomeBuilder, job: LeasedJob, page: VisitedPage, reason: str) -> JobOutcome:
    """READY later, or FAILED with the beginning of the answer."""
    assert page.document is not None
    outcome = keep_answer(outcomes.retry(job, page.url, reason), page.document)
    if outcome.state is JobState.FAILED:
        outcome.hops = page.hops
    return outcome
