"""Has a browser load a page whose plain answer lacks what its group needs."""

from engine.model.job import HostPlan, JobState, LeasedJob
from engine.model.step import REQUIRED_FIELDS
from engine.node.db_access import DbAccess
from engine.node.extraction.page_extraction import UNRENDERED
from engine.node.handlers.visited_page import PageStage, VisitedPage
from engine.store.tables.outcome import JobOutcome


def renders_without(job: LeasedJob, page: VisitedPage) -> str:
    """What a plain page must have (see Context); empty for a page that no browser will load."""
    loading = job.plan.group.loader
    if loading is None or loading.browser.when is None or page.response is None or page.attempt.renders:
        return ""
    return loading.browser.when.missing


class RenderPage(PageStage, frozen=True):
    """Asks for the page once more where it needs the browser, and in a turn of its own. Notes what loaded it."""

    db_access: DbAccess
    again: tuple[PageStage, ...]
    """The stages from the wait for its host to the extraction."""

    def applies(self, plan: HostPlan) -> bool:
        return plan.group.loader is not None

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        if _needs_browser(job, page):
            if job.terms.reserved:
                if not await self.db_access.reserve_request(job):
                    return JobOutcome(job=job, state=JobState.READY)  # it starts again where a limit is lifted
                page.attempt.reserved += 1
            page.attempt.share.release()
            page.attempt.renders = True
            page.response = page.document = page.content = page.extraction = None
            for stage in self.again:
                outcome = await stage.run(job, page)
                if not isinstance(outcome, VisitedPage):
                    return outcome
        if page.response is not None:
            page.attempt.is_rendered = not renders_without(job, page)
        return page


def _needs_browser(job: LeasedJob, page: VisitedPage) -> bool:
    wanted, extraction = renders_without(job, page), page.extraction
    if not wanted or extraction is None:
        return False
    result = extraction.result
    return result.replaced_by == UNRENDERED or (wanted == REQUIRED_FIELDS and result.lacks_rows)
