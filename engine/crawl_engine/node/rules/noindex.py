"""Counts pages that say `noindex`; with the setting `meta_noindex` they give links, but no rows."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from crawl_engine.extract.page.page import ROBOTS_TAG, header_values, read_headers
from crawl_engine.model.job import LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome

_DROPS = "drops rows"


class NoindexPart(RulePart, frozen=True):
    """The page says `noindex`."""

    drops_rows: bool

    @property
    def keeps(self) -> Literal["all", "links"]:
        return "links" if self.drops_rows else "all"

    @property
    def note(self) -> str:
        return "noindex"

    def add_to(self, outcome: JobOutcome, _settings: Settings) -> None:
        outcome.stats.noindex = outcome.job.extraction.page_job is None  # a re-extraction is not counted again


class NoindexRule(PageRule, frozen=True):
    """Knows whether such pages give no rows."""

    name: ClassVar[str] = "noindex"
    part: ClassVar[type[RulePart]] = NoindexPart
    reads_rows: ClassVar[bool] = True

    def prepare(self, _job: LeasedJob, _arrival: Arrival, settings: Settings) -> str:
        return self.prepare_alone(settings)

    def prepare_alone(self, settings: Settings) -> str:
        return _DROPS if settings.meta_noindex else ""

    def judge(self, known: str, judged: JudgedPage) -> NoindexPart | None:
        return NoindexPart(known == _DROPS) if "noindex" in judged.page.robots(judged.context.agent) else None

    def judge_headers(self, known: str, headers: Iterable[tuple[str, str]], agent: str) -> NoindexPart | None:
        is_noindex = "noindex" in read_headers(header_values(headers, ROBOTS_TAG), agent)
        return NoindexPart(known == _DROPS) if is_noindex else None
