"""Asks for a page again that was answered without the login of its host."""

from typing import ClassVar

from crawl_engine.extract.select.presence import lacks_element
from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, LogInAgain, PageRule, RulePart
from crawl_engine.settings import Settings


class LostLoginPart(RulePart, frozen=True):
    """The page lacks `check`: it is what visitors see."""

    def decide(self, _job: LeasedJob) -> LogInAgain:
        return LogInAgain(reason="the page lacks `check`")


class LostLoginRule(PageRule, frozen=True):
    """Knows the selector of an element that pages have while the login lasts."""

    name: ClassVar[str] = "login"
    part: ClassVar[type[RulePart]] = LostLoginPart
    knows_selector: ClassVar[bool] = True

    def applies(self, plan: HostPlan, _settings: Settings) -> bool:
        return plan.rule.login is not None

    def prepare(self, _job: LeasedJob, arrival: Arrival, _settings: Settings) -> str | None:
        return (arrival.login.check or None) if arrival.login is not None else None

    def judge(self, known: str, judged: JudgedPage) -> LostLoginPart | None:
        return LostLoginPart() if lacks_element(judged.page, known) else None
