"""The shape of a rule of the page: what it knows, what it finds, and what becomes of the job.

A rule judges where the page is parsed, perhaps in an extraction process; its part decides in the node.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.model.record import ExtractedLink, Extraction
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of the job of a page. Of this class itself: the page is kept."""

    confirm: str = ""
    """Why the page is asked for once more before, in a group that confirms the end of a chain."""


class SkipPage(Decision, frozen=True):
    """SKIPPED; a re-extraction deletes the page's rows and leaves it DONE."""

    reason: str
    links: tuple[ExtractedLink, ...] = ()
    """What is asked for instead."""


class Arrival(Protocol):
    """How a page came, where its job does not say it."""

    @property
    def login(self) -> LoginRule | None:
        """How to log in to its host, if it was fetched after a login."""

    @property
    def is_fetched(self) -> bool:
        """Whether it was fetched now."""


class JudgedPage(Struct):
    """A page, and what the dataDefs gave of it so far."""

    page: Page
    context: Context
    extractors: Sequence[RecordExtractor]
    found: list[Extraction] = []
    """By dataDef; empty before they are applied."""
    leads_on: bool = False
    """Whether another page may follow it, unless it shows nothing."""


class RulePart(Struct, frozen=True):
    """What a rule found on a page. The types of its fields check it where it has crossed processes."""

    @property
    def keeps(self) -> Literal["all", "links", "nothing"]:
        """What the page still gives. With `nothing`, no other rule has a part of it."""
        return "nothing"

    def check(self) -> None:
        """Raise ValueError for what the types do not refuse."""

    def decide(self, job: LeasedJob) -> Decision | None:  # noqa: ARG002  # as each part
        """What becomes of the job; None: the page is kept."""
        return None

    def add_to(self, outcome: JobOutcome) -> None:
        """Add to the outcome of a page that is kept."""


class PageRule(Struct, frozen=True):
    """One question about a page, the same for all pages."""

    name: ClassVar[str]
    part: ClassVar[type[RulePart]]
    reads_rows: ClassVar[bool] = False
    """Whether it judges what the dataDefs gave; else it judges the page before they are applied."""
    knows_selector: ClassVar[bool] = False
    """Whether what it knows is a selector, with which it searches the page."""

    def applies(self, plan: HostPlan, settings: Settings) -> bool:  # noqa: ARG002  # some are for all
        """Whether it may concern the pages of a plan."""
        return True

    def prepare(self, job: LeasedJob, arrival: Arrival) -> str | None:  # noqa: ARG002  # some know all
        """What it must know of the job to judge its page; None: it leaves this page out."""
        return ""

    def judge(self, known: str, judged: JudgedPage) -> RulePart | None:
        """What it finds on the page; None: nothing. `known`: what `prepare` gave."""
        raise NotImplementedError
