"""Finds pages that lack what they should have: a browser loads them, or they are asked for again."""

from typing import ClassVar

from crawl_engine.extract.select.presence import lacks_element
from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.model.step import REQUIRED_FIELDS
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RetryPage, RulePart
from crawl_engine.settings import Settings


class UnrenderedPart(RulePart, frozen=True):
    """The plain page lacks what only a browser gives it. The stage `RenderPage` loads it."""


class IncompletePart(RulePart, frozen=True):
    """The page lacks what a page of its host must have."""

    def decide(self, job: LeasedJob) -> RetryPage:
        missing = job.plan.retry.missing
        shown = "a required field" if missing == REQUIRED_FIELDS else f"`{missing}`"
        return RetryPage(reason=f"the page lacks {shown}")


class _LackRule(PageRule, frozen=True):
    """Knows a selector whose absence it finds; `required`: that of rows, or of a required field."""

    part: ClassVar[type[RulePart]]
    knows_selector: ClassVar[bool] = True

    def judge(self, known: str, judged: JudgedPage) -> RulePart | None:
        is_lacking = known != REQUIRED_FIELDS and lacks_element(judged.page, known)
        return self.part() if is_lacking else None


class UnrenderedRule(_LackRule, frozen=True):
    """For groups with `loader: {browser: {when: …}}`."""

    name: ClassVar[str] = "unrendered"
    part: ClassVar[type[RulePart]] = UnrenderedPart

    def applies(self, plan: HostPlan, _settings: Settings) -> bool:
        return plan.group.loader is not None and plan.group.loader.browser.when is not None

    def prepare(self, job: LeasedJob, arrival: Arrival, _settings: Settings) -> str | None:
        loading = job.plan.group.loader
        if loading is None or loading.browser.when is None or not arrival.is_fetched or arrival.is_rendered:
            return None
        return loading.browser.when.missing

    def judge_lack(self, known: str, *, is_ended: bool) -> UnrenderedPart | None:  # noqa: ARG002  # e.g. a script may do more
        return UnrenderedPart() if known == REQUIRED_FIELDS else None


class IncompleteRule(_LackRule, frozen=True):
    """For hosts with `retry: {missing: …}`."""

    name: ClassVar[str] = "incomplete"
    part: ClassVar[type[RulePart]] = IncompletePart

    def applies(self, plan: HostPlan, _settings: Settings) -> bool:
        return plan.retry.missing is not None

    def prepare(self, job: LeasedJob, arrival: Arrival, _settings: Settings) -> str | None:
        return job.plan.retry.missing if arrival.is_fetched else None

    def judge_lack(self, known: str, *, is_ended: bool) -> IncompletePart | None:
        return IncompletePart() if known == REQUIRED_FIELDS and not is_ended else None
