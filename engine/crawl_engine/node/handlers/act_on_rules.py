"""Does with a job what the rules of the page have decided, by what they found on its page."""

from crawl_engine.model.job import LeasedJob
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules.rule import Decision, SkipPage
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome


class ActOnRules(PageStage, frozen=True):
    """Ends the job by the first rule, in their order, that does not keep its page."""

    page_extractor: PageExtractor
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        extraction = page.extraction
        if extraction is None or not extraction.result.parts:
            return page
        for part in extraction.result.parts.values():
            decision = part.decide(job)
            outcome = None if decision is None else self._carry_out(decision, job, page)
            if outcome is not None:
                if extraction.share is not None:
                    outcome.release_when_settled(extraction.share.release)
                return outcome
        return page

    def _carry_out(self, decision: Decision, job: LeasedJob, page: VisitedPage) -> JobOutcome | None:
        """The outcome of the job; None: the page is kept."""
        match decision:
            case SkipPage():
                outcome = self.outcomes.skipped(job, decision.reason, page.url, page.hops)
                children = self.page_extractor.list_children(job, decision.links)
                return page.complete(outcome.add(Children(children)) if children else outcome)
            case _:
                return None
