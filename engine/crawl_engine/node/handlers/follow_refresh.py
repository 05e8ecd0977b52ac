"""Takes a page that leads to another one by itself as a redirect."""

from crawl_engine import urls
from crawl_engine.http.redirects import RedirectRejected
from crawl_engine.http.response import not_followed
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.retry_policy import SEE_OTHER
from crawl_engine.node.handlers.hop_rules import Hop, HopRule
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules.refresh import RefreshPart, RefreshRule
from crawl_engine.store.tables.outcome import JobOutcome


class FollowRefresh(PageStage, frozen=True):
    """Puts the job back at the target, and does not store the page. A page that leads to itself stays a page."""

    outcomes: OutcomeBuilder
    hop_rules: tuple[HopRule, ...]

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        extraction, chain, problem = page.extraction, page.chain, None
        found = None if extraction is None else extraction.result.parts.get(RefreshRule.name)
        if extraction is None or chain is None or not isinstance(found, RefreshPart):
            return page
        target, own_url = found.target, urls.normalize(page.url) or page.url
        cookies = None if page.response is None else page.response.cookie_header
        try:
            if urls.is_file_url(target):
                raise RedirectRejected(not_followed(target))
            if not chain.may_refresh(own_url, target, cookies):
                return page
            chain.follow(target, SEE_OTHER, cookies or "")
        except RedirectRejected as rejected:
            problem = rejected
        hop = Hop(page, page.url, problem)
        for rule in self.hop_rules:
            ended = await rule.judge(job, hop)
            if isinstance(ended, JobOutcome):
                if extraction.share is not None:
                    ended.release_when_settled(extraction.share.release)
                return ended
        raise AssertionError("the last rule puts the job back")
