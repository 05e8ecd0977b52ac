"""The rules of the page in their order, and how they are applied: prepared, judged, and read back."""

from collections.abc import Iterable, Mapping

from msgspec import convert

from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.model.step import REQUIRED_FIELDS
from crawl_engine.node.rules.canonical import CanonicalRule
from crawl_engine.node.rules.form_page import FormPageRule
from crawl_engine.node.rules.lacking import IncompleteRule, UnrenderedRule
from crawl_engine.node.rules.lost_login import LostLoginRule
from crawl_engine.node.rules.noindex import NoindexRule
from crawl_engine.node.rules.page_digest import RepeatRule
from crawl_engine.node.rules.page_series import SeriesRule
from crawl_engine.node.rules.refresh import RefreshRule
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.node.rules.script_redirect import ScriptedRule
from crawl_engine.settings import Settings

RULES: tuple[PageRule, ...] = (
    RefreshRule(),
    LostLoginRule(),
    UnrenderedRule(),
    IncompleteRule(),
    CanonicalRule(),
    FormPageRule(),
    ScriptedRule(),
    NoindexRule(),
    SeriesRule(),
    RepeatRule(),
)
"""They judge and decide in this order: first those that need no rows."""
_BY_NAME = {rule.name: rule for rule in RULES}
_MAX_PLANS = 10_000


class RuleParts(dict[str, RulePart]):
    """What the rules found on a page, by their names."""

    @property
    def keeps_rows(self) -> bool:
        return all(part.keeps == "all" for part in self.values())

    @property
    def ends_page(self) -> bool:
        """Whether a rule leaves nothing of the page; then its part is the only one."""
        return any(part.keeps == "nothing" for part in self.values())


class RulesOfPlans:
    """The rules that may concern the pages of each plan. One for each node."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_plan: dict[HostPlan, tuple[PageRule, ...]] = {}
        self._remembered: dict[tuple[str, int], str] = {}
        """By rule and sequence: what the last page of the sequence left."""

    def prepare(self, job: LeasedJob, arrival: Arrival) -> dict[str, str]:
        """What the rules must know of a job to judge its page, by the name of each that concerns it."""
        rules = self._by_plan.get(job.plan)
        if rules is None:
            if len(self._by_plan) >= _MAX_PLANS:
                self._by_plan.clear()
            rules = tuple([rule for rule in RULES if rule.applies(job.plan, self._settings)])
            self._by_plan[job.plan] = rules
        prepared: dict[str, str] = {}
        for rule in rules:
            known = rule.prepare(job, arrival, self._settings)
            if known is not None:
                prepared[rule.name] = known or self._remembered.get((rule.name, job.sequence), "")
        return prepared

    def remember(self, job: LeasedJob, parts: RuleParts) -> None:
        """Remember what rules must know of the next page of the job's sequence."""
        for name, part in parts.items():
            if part.remembered:
                if len(self._remembered) >= _MAX_PLANS:
                    self._remembered.clear()
                self._remembered[name, job.sequence] = part.remembered


def prepare_alone(settings: Settings) -> dict[str, str]:
    """What the rules must know to judge a page in a preview."""
    prepared = [(rule.name, rule.prepare_alone(settings)) for rule in RULES]
    return {name: known for name, known in prepared if known is not None}


def judge_page(judged: JudgedPage, parts: RuleParts, *, reads_rows: bool) -> bool:
    """Have the rules of its context judge a page, before or after the dataDefs, and add what they found.

    Whether one of them leaves nothing of it. Raises OutOfTime.
    """
    for name, known in judged.context.rules.items():
        rule = _BY_NAME[name]
        part = rule.judge(known, judged) if rule.reads_rows is reads_rows else None
        if part is not None:
            if part.keeps == "nothing":
                parts.clear()
                parts[name] = part
                return True
            parts[name] = part
    return False


def judge_headers(rules: Mapping[str, str], headers: Iterable[tuple[str, str]], agent: str) -> RuleParts:
    """What rules find on content that is no page. `rules`: what they know, by name."""
    found = [(name, _BY_NAME[name].judge_headers(known, headers, agent)) for name, known in rules.items()]
    return RuleParts({name: part for name, part in found if part is not None})


def judge_lack(rules: Mapping[str, str], parts: RuleParts) -> RuleParts:
    """The parts of a page that lacks a required field or rows, with those of the rules that ask for them."""
    found = [(name, _BY_NAME[name].judge_lack(known, is_ended=parts.ends_page)) for name, known in rules.items()]
    more = {name: part for name, part in found if part is not None}
    every = parts | more
    return RuleParts({name: every[name] for name in rules if name in every})


def list_selectors(rules: Mapping[str, str]) -> list[str]:
    """The selectors with which rules search a page."""
    return [known for name, known in rules.items() if _BY_NAME[name].knows_selector and known != REQUIRED_FIELDS]


def decode_parts(kind: type, value: object) -> RuleParts:
    """Parts that another process sent. Raises ValueError, also for a part that no rule checks."""
    if kind is not RuleParts or not isinstance(value, dict):
        raise ValueError(f"not the parts of rules: {kind}")
    parts = RuleParts()
    for name, sent in value.items():
        rule = _BY_NAME.get(name)
        if rule is None or rule.part is None:
            raise ValueError("a part that no rule checks")
        parts[name] = part = convert(sent, rule.part)
        part.check()
    return parts
