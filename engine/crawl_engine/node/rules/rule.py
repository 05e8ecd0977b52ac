"""The shape of a rule of the page: what it knows, what it finds, and what becomes of the job.

A rule judges where the page is parsed, perhaps in an extraction process; its part decides in the node.
"""

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, Protocol

from msgspec import Struct

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import HostPlan, LeasedJob, ReasonCode
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
    code: ReasonCode | None = None


class EndPage(Decision, frozen=True):
    """DONE without rows. `text`: for its event."""

    text: str


class LogInAgain(Decision, frozen=True):
    """READY from its first request, after a new login if the login of its request is still in force."""

    reason: str


class RetryPage(Decision, frozen=True):
    """READY later, or FAILED after the last attempt."""

    reason: str


class Arrival(Protocol):
    """How a page came, where its job does not say it."""

    @property
    def login(self) -> LoginRule | None:
        """How to log in to its host, if it was fetched after a login."""

    @property
    def is_fetched(self) -> bool:
        """Whether it was fetched now."""

    @property
    def is_rendered(self) -> bool:
        """Whether a browser loads it."""


class JudgedPage(Struct):
    """A page, and what the dataDefs gave of it so far."""

    page: Page
    context: Context
    extractors: Sequence[RecordExtractor]
    stop_at: float | None = None
    """The moment at which OutOfTime is raised; None: never."""
    found: list[Extraction] = []
    """By dataDef; empty before they are applied."""
    links: list[ExtractedLink] = []

    @property
    def leads_on(self) -> bool:
        """Whether a dataDef may find the page that follows it."""
        return any(extractor.next_page is not None for extractor in self.extractors)

    @property
    def time_left(self) -> float | None:
        """Seconds; None: no limit."""
        return None if self.stop_at is None else max(0.0, self.stop_at - time.monotonic())


class RulePart(Struct, frozen=True):
    """What a rule found on a page. The types of its fields check it where it has crossed processes."""

    @property
    def keeps(self) -> Literal["all", "links", "nothing"]:
        """What the page still gives. With `nothing`, no other rule has a part of it."""
        return "nothing"

    @property
    def note(self) -> str:
        """For the event of a page that is kept; empty: none."""
        return ""

    @property
    def remembered(self) -> str:
        """What its rule knows of the next page of the sequence, if `prepare` gives it nothing; empty: nothing."""
        return ""

    def check(self) -> None:
        """Raise ValueError for what the types do not refuse."""

    def decide(self, job: LeasedJob) -> Decision | None:  # noqa: ARG002  # as each part
        """What becomes of the job; None: the page is kept."""
        return None

    def add_to(self, outcome: JobOutcome, settings: Settings) -> None:
        """Add to the outcome of a page that is kept."""


class PageRule(Struct, frozen=True):
    """One question about a page, the same for all pages."""

    name: ClassVar[str]
    part: ClassVar[type[RulePart] | None] = None
    """None: it only warns."""
    reads_rows: ClassVar[bool] = False
    """Whether it judges what the dataDefs gave; else it judges the page before they are applied."""
    knows_selector: ClassVar[bool] = False
    """Whether what it knows is a selector, with which it searches the page."""

    def applies(self, plan: HostPlan, settings: Settings) -> bool:  # noqa: ARG002  # some are for all
        """Whether it may concern the pages of a plan."""
        return True

    def prepare(self, job: LeasedJob, arrival: Arrival, settings: Settings) -> str | None:
        """What it must know of the job to judge its page; None: it leaves this page out."""
        raise NotImplementedError

    def prepare_alone(self, settings: Settings) -> str | None:  # noqa: ARG002  # most rules concern jobs alone
        """What it must know to judge a page in a preview, which has no job; None: it leaves such pages out."""
        return None

    def judge(self, known: str, judged: JudgedPage) -> RulePart | None:
        """What it finds on the page; None: nothing. `known`: what `prepare` gave. Raises OutOfTime."""
        raise NotImplementedError

    def judge_headers(self, known: str, headers: Iterable[tuple[str, str]], agent: str) -> RulePart | None:  # noqa: ARG002
        """What it finds on content that is no page, by its headers."""
        return None

    def judge_lack(self, known: str, *, is_ended: bool) -> RulePart | None:  # noqa: ARG002
        """What it finds in the node on a page that lacks a required field, or rows at all.

        `is_ended`: because another rule leaves nothing of it.
        """
        return None
