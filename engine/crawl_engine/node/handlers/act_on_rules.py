"""Does with a job what the rules of the page have decided, by what they found on its page."""

from crawl_engine.model.job import LeasedJob
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.handlers.ask_again import retry_page
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder, list_warnings
from crawl_engine.node.rules.rule import Decision, EndPage, LogInAgain, RetryPage, SkipPage
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome


class ActOnRules(PageStage, frozen=True):
    """Ends the job by the first rule, in their order, that does not keep its page."""

    page_extractor: PageExtractor
    db_access: DbAccess
    outcomes: OutcomeBuilder

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        extraction = page.extraction
        if extraction is None or not extraction.result.parts:
            return page
        for part in extraction.result.parts.values():
            decision = part.decide(job)
            if decision is None:
                continue
            outcome = self._confirm(decision, job, page) or self._carry_out(decision, job, page)
            if outcome is not None:
                if extraction.share is not None:
                    outcome.release_when_settled(extraction.share.release)
                return outcome
        return page

    def _confirm(self, decision: Decision, job: LeasedJob, page: VisitedPage) -> JobOutcome | None:
        """Ask for the page once more: what it does not show may be missing for a moment."""
        if not decision.confirm or not job.plan.group.confirm_end:
            return None
        is_sent = page.attempt.requests or job.target  # an earlier lease sent the request that led to the target
        if not is_sent or page.checked is not None or self.db_access.was_asked_again(job):
            return None  # it is a stored page, or the site says that it is the newest
        return self.outcomes.asked_again(job, page.url, decision.confirm)

    def _carry_out(self, decision: Decision, job: LeasedJob, page: VisitedPage) -> JobOutcome | None:
        """The outcome of the job; None: the page is kept."""
        match decision:
            case SkipPage():
                outcome = self.outcomes.skipped(job, decision.reason, page.url, page.hops, decision.code)
                assert page.extraction is not None
                if page.extraction.result.warnings:
                    outcome.add(list_warnings(page.extraction))
                children = self.page_extractor.list_children(job, decision.links)
                return page.complete(outcome.add(Children(children)) if children else outcome)
            case EndPage():
                return page.complete(self.outcomes.emptied(job, decision.text, page.url, page.hops))
            case LogInAgain() if page.login is not None:
                return self.outcomes.logged_out(job, page.url, decision.reason, page.login.on_lost)
            case RetryPage():
                return retry_page(self.outcomes, job, page, decision.reason)
            case _:
                return None
