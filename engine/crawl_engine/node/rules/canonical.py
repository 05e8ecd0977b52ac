"""Skips a page whose canonical URL is another, in a group with `canonical`, and asks for that one."""

from typing import ClassVar

from crawl_engine import urls
from crawl_engine.extract.page.link_header import find_linked
from crawl_engine.extract.page.page import Page, resolve_url
from crawl_engine.model.job import HostPlan, LeasedJob, ReasonCode, link_key
from crawl_engine.model.link import Carried, LinkDetails, LinkRequest
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart, SkipPage
from crawl_engine.settings import Settings
from crawl_engine.urls import QueryStripper

_CANONICAL = "head > link[rel~=canonical i][href]"


class CanonicalPart(RulePart, frozen=True):
    """The page has another canonical URL."""

    url: str

    def check(self) -> None:
        if not urls.is_http_url(self.url):
            raise ValueError("a canonical URL that is not http")

    def decide(self, job: LeasedJob) -> SkipPage:
        carried = Carried.from_json(job.lineage.carried).values
        details = LinkDetails(
            LinkRequest(relation="canonical"), Carried(values=carried).to_json() if carried else None
        )  # fmt: skip
        link = ExtractedLink(self.url, job.group, 0, None, link_key(job.group, self.url), details=details)
        return SkipPage(reason=f"its canonical URL is {self.url}", links=(link,), code=ReasonCode.CANONICAL)


class CanonicalRule(PageRule, frozen=True):
    """Knows the URL of the job, before redirects."""

    name: ClassVar[str] = "canonical"
    part: ClassVar[type[RulePart]] = CanonicalPart

    def applies(self, plan: HostPlan, _settings: Settings) -> bool:
        return plan.group.canonical

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        return None if job.lineage.link.relation == "canonical" else job.url

    def judge(self, known: str, judged: JudgedPage) -> CanonicalPart | None:
        if not judged.extractors:
            return None
        url = find_canonical(judged.page, known, judged.extractors[0].query_stripper)
        return None if url is None else CanonicalPart(url)


def find_canonical(page: Page, requested_url: str, query_stripper: QueryStripper | None) -> str | None:
    """The canonical URL that a page, or its header `Link`, gives, if it is another page of the same host."""
    head = page.tree.head if page.tree is not None else None  # the search stays within it
    node = head.css_first(_CANONICAL) if head is not None else None
    href = node.attrs.get("href") if node is not None else None
    base = page.base
    if not (href and href.strip()):
        base, href = page.url, find_linked(page.headers, "canonical")
    url = resolve_url(base, href, query_stripper) if href and href.strip() else None
    if url is None:
        return None
    own = urls.normalize(page.url) or page.url
    if url in (own, requested_url) or urls.host_without_www(url) != urls.host_without_www(own):
        return None
    return url
