"""Has a browser load a page whose plain answer lacks what its group needs."""

import asyncio

from crawl_engine import urls
from crawl_engine.model.job import HostPlan, JobState, LeasedJob
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.rules.lacking import UnrenderedRule
from crawl_engine.store.tables.outcome import JobOutcome

_MAX_DOCUMENTS = 10_000
_DocumentKey = tuple[int, str, str, str]
"""Defs, group, URL without its route, and variant of the request."""


class PlainAnswers:
    """What the plain answers for documents said, for all their routes: a server never sees a route."""

    def __init__(self) -> None:
        self._lacking = dict[_DocumentKey, asyncio.Future[bool | None]]()
        """Whether a document needs the browser; None: the job that asked for it has ended without a plain answer."""
        self._asking = dict[tuple[int, int], _DocumentKey]()
        """By lease, the documents that are asked for."""

    async def is_lacking(self, job: LeasedJob) -> bool:
        """Whether an answer to another job has shown it. False: this one must ask, and `tell`, or be forgotten."""
        key = job.defs_version, job.group, job.url.partition("#")[0], job.request.variant
        while True:
            known = self._lacking.get(key)
            if known is None:
                if len(self._lacking) >= _MAX_DOCUMENTS:
                    self._lacking = {one: answer for one, answer in self._lacking.items() if not answer.done()}
                self._lacking[key] = asyncio.get_running_loop().create_future()
                self._asking[job.lease_key] = key
                return False
            await asyncio.wait([known])
            if (lacking := known.result()) is not None:
                return lacking

    def tell(self, job: LeasedJob, *, lacking: bool | None) -> None:
        """Note what the answer to a job says; nothing if it did not ask for others, or has told it already."""
        if (key := self._asking.pop(job.lease_key, None)) is None:
            return
        self._lacking[key].set_result(lacking)
        if lacking is None:
            del self._lacking[key]

    def forget(self, job: LeasedJob) -> None:
        """Have another job ask, if this one has ended without an answer."""
        self.tell(job, lacking=None)


class AskPlainOnce(PageStage, frozen=True):
    """Goes to the browser at once where the plain answer for another route of the document was not enough."""

    answers: PlainAnswers

    def applies(self, plan: HostPlan) -> bool:
        return plan.group.loader is not None and plan.group.loader.browser.when is not None

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage:
        if urls.route_of(job.url) and job.target is None and job.request.is_plain_get:
            page.attempt.renders = await self.answers.is_lacking(job)
        return page


class RenderPage(PageStage, frozen=True):
    """Asks for the page once more where it needs the browser, and in a turn of its own. Notes what loaded it."""

    answers: PlainAnswers
    db_access: DbAccess
    again: tuple[PageStage, ...]
    """The stages from the wait for its host to the extraction."""

    def applies(self, plan: HostPlan) -> bool:
        return plan.group.loader is not None

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        is_lacking = page.extraction is not None and UnrenderedRule.name in page.extraction.result.parts
        if page.response is not None:
            self.answers.tell(job, lacking=is_lacking)
        if is_lacking:
            if not await page.attempt.reserve(job, self.db_access):
                return JobOutcome(job=job, state=JobState.READY)  # it starts again where a limit is lifted
            page.attempt.share.release()
            if page.extraction is not None and page.extraction.share is not None:
                page.extraction.share.release()
            page.attempt.renders = True
            page.response = page.document = page.content = page.extraction = None
            for stage in self.again:
                outcome = await stage.run(job, page)
                if not isinstance(outcome, VisitedPage):
                    return outcome
        if page.response is not None:
            rule = job.plan.group.loader
            page.attempt.is_rendered = page.attempt.renders or (rule is not None and rule.browser.when is None)
        return page
