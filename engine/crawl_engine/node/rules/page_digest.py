"""Digests what a page shows, so that one page for many URLs is found."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from crawl_engine.extract.select.page_blocks import read_digest
from crawl_engine.model.job import JobKind, LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.page_repeats import PageSeen


class RepeatPart(RulePart, frozen=True):
    """A number for the text of the page and its fields, without those with a `value`."""

    digest: Annotated[int, Meta(ge=1, le=2**63 - 1)]

    @property
    def keeps(self) -> Literal["all"]:
        return "all"

    def add_to(self, outcome: JobOutcome, settings: Settings) -> None:
        outcome.add(PageSeen(self.digest, settings.max_repeats))


class RepeatRule(PageRule, frozen=True):
    """For pages that no form and no body tells apart."""

    name: ClassVar[str] = "repeats"
    part: ClassVar[type[RulePart]] = RepeatPart
    reads_rows: ClassVar[bool] = True

    def prepare(self, job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str | None:
        return "" if job.kind is JobKind.PAGE and job.request.body is None else None

    def judge(self, _known: str, judged: JudgedPage) -> RepeatPart:
        found = zip(judged.extractors, judged.found, strict=True)
        values = [[row.get(name) for name in one.read_fields] for one, extraction in found for row in extraction.rows]
        return RepeatPart(read_digest(judged.page, values))
