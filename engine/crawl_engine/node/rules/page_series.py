"""Ends a series at a page that shows nothing, or nothing new; finds the pages that follow."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from crawl_engine.extract.page.patterns import TimeBudget
from crawl_engine.extract.select.page_blocks import read_blocks
from crawl_engine.model.job import LeasedJob
from crawl_engine.model.link import Carried, PageBlocks
from crawl_engine.node.rules.rule import Arrival, Decision, EndPage, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings

NOTHING_SHOWN = "nothing on the page"
_IN_SERIES = "in series "


class SeriesPart(RulePart, frozen=True):
    """The page is one of a series, or would end its chain."""

    blocks: PageBlocks | None = None
    """In a series that ends with an empty page."""
    shows_nothing: bool = False
    """Whether it would end its chain because nothing is on it, or it has led to a page that the run has."""
    is_repeated: bool = False
    """Whether the page before it has the same blocks."""

    @property
    def keeps(self) -> Literal["all", "nothing"]:
        return "nothing" if self.is_repeated else "all"

    def decide(self, _job: LeasedJob) -> Decision | None:
        confirm = NOTHING_SHOWN if self.shows_nothing else ""
        if self.is_repeated:
            return EndPage(text="the same records as on the page before: the last page", confirm=confirm)
        return Decision(confirm=confirm) if confirm else None


class SeriesRule(PageRule, frozen=True):
    """Knows whether the page is one of a series, and the digest of the blocks on the page before it."""

    name: ClassVar[str] = "series"
    part: ClassVar[type[RulePart]] = SeriesPart
    reads_rows: ClassVar[bool] = True

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        in_series = job.lineage.page_number is not None
        if not (in_series or job.plan.leads_on):
            return None
        return (_IN_SERIES if in_series else "") + Carried.from_json(job.lineage.carried).blocks

    def prepare_alone(self, _settings: Settings) -> str:
        return ""

    def judge(self, known: str, judged: JudgedPage) -> SeriesPart | None:
        """Its links begin with those to the pages that follow. Raises OutOfTime."""
        in_series = known.startswith(_IN_SERIES)
        if not in_series and not judged.leads_on:
            return None
        extractors, budget = judged.extractors, TimeBudget(judged.time_left)
        blocks = None
        if in_series or any(one.next_page is not None and one.next_page.until_empty for one in extractors):
            blocks = _read_blocks(judged, budget)
        found = [one.find_next(judged.page, judged.context, blocks, budget) for one in extractors]
        if blocks is not None and blocks.present and blocks.digest == known.removeprefix(_IN_SERIES):
            return SeriesPart(blocks, is_repeated=True)
        next_pages, shows_nothing = [link for link in found if link is not None], False
        if not next_pages:
            shown = blocks or _read_blocks(judged, budget)
            shows_nothing = not shown.present and (blocks is not None or not _has_values(judged))
        judged.links[:0] = next_pages
        return SeriesPart(blocks if in_series else None, shows_nothing) if in_series or shows_nothing else None


def _read_blocks(judged: JudgedPage, time_budget: TimeBudget) -> PageBlocks:
    """The blocks of all dataDefs. Raises OutOfTime."""
    selectors = [(one.block, bool(one.record_fields)) for one in judged.extractors if one.block is not None]
    return read_blocks(judged.page, selectors, _values_of_blocks(judged), judged.links, time_budget)


def _values_of_blocks(judged: JudgedPage) -> Sequence[list[Any]]:
    found = zip(judged.extractors, judged.found, strict=True)
    blocks = [(one.record_fields, extraction) for one, extraction in found if one.block is not None]
    return [[row.get(name) for name in names] for names, extraction in blocks for row in extraction.rows]


def _has_values(judged: JudgedPage) -> bool:
    """Whether a dataDef without blocks has found a value."""
    found = zip(judged.extractors, judged.found, strict=True)
    return any(
        row.get(name) is not None
        for one, extraction in found
        if one.block is None
        for row in extraction.rows
        for name in one.read_fields
    )
