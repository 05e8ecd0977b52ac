"""Digests what a page shows, so that one page for many URLs is found."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from crawl_engine.extract.select.page_blocks import read_digest, read_key
from crawl_engine.model.job import JobKind, LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.page_repeats import PageSeen

EACH = "each"
"""What the rule knows where each text is digested."""


class RepeatPart(RulePart, frozen=True):
    """A number for the text of the page and its fields, without those with a `value`; 0: it is unlike the last one."""

    digest: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    key: Annotated[str, Meta(max_length=40)]
    """Of its fields and links alone."""

    @property
    def keeps(self) -> Literal["all"]:
        return "all"

    @property
    def remembered(self) -> str:
        return self.key

    def add_to(self, outcome: JobOutcome, settings: Settings) -> None:
        outcome.add(PageSeen(self.digest, settings.max_repeats))


class RepeatRule(PageRule, frozen=True):
    """For pages that no form and no body tells apart. It knows the key of the last page of the sequence.

    A text is digested only where it may skip a page, or where the page before had the same fields and as many links.
    """

    name: ClassVar[str] = "repeats"
    part: ClassVar[type[RulePart]] = RepeatPart
    reads_rows: ClassVar[bool] = True

    def prepare(self, job: LeasedJob, _arrival: Arrival, settings: Settings) -> str | None:
        if job.kind is not JobKind.PAGE or job.request.body is not None:
            return None
        return "" if settings.max_repeats is None else EACH

    def judge(self, known: str, judged: JudgedPage) -> RepeatPart:
        found = zip(judged.extractors, judged.found, strict=True)
        values = [[row.get(name) for name in one.read_fields] for one, extraction in found for row in extraction.rows]
        key = "" if known == EACH else read_key(values, len(judged.links))
        return RepeatPart(read_digest(judged.page, values) if known in (key, EACH) else 0, key)
