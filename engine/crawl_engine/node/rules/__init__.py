"""The rules of the page, in their order: canonical URLs."""

from collections.abc import Mapping

from msgspec import convert

from crawl_engine.model.job import HostPlan, LeasedJob
from crawl_engine.node.rules.canonical import CanonicalRule
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart
from crawl_engine.settings import Settings

RULES: tuple[PageRule, ...] = (CanonicalRule(),)
_BY_NAME = {rule.name: rule for rule in RULES}
_MAX_PLANS = 10_000


class RuleParts(dict[str, RulePart]):
    """What the rules found on a page, by their names."""


class RulesOfPlans:
    """The rules that may concern the pages of each plan. One for each node."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_plan: dict[HostPlan, tuple[PageRule, ...]] = {}

    def prepare(self, job: LeasedJob, arrival: Arrival) -> dict[str, str]:
        """What the rules must know of a job to judge its page, by the name of each that concerns it."""
        rules = self._by_plan.get(job.plan)
        if rules is None:
            if len(self._by_plan) >= _MAX_PLANS:
                self._by_plan.clear()
            rules = tuple([rule for rule in RULES if rule.applies(job.plan, self._settings)])
            self._by_plan[job.plan] = rules
        prepared = [(rule.name, rule.prepare(job, arrival)) for rule in rules]
        return {name: known for name, known in prepared if known is not None}


def judge_page(judged: JudgedPage, parts: RuleParts, *, reads_rows: bool) -> RulePart | None:
    """Have the rules of its context judge a page, before or after the dataDefs, and add their parts.

    The part of the rule that leaves nothing of it, which is the only one then; else None.
    """
    for name, known in judged.context.rules.items():
        rule = _BY_NAME[name]
        part = rule.judge(known, judged) if rule.reads_rows is reads_rows else None
        if part is None:
            continue
        if part.keeps == "nothing":
            parts.clear()
        parts[name] = part
        if part.keeps == "nothing":
            return part
    return None


def list_selectors(rules: Mapping[str, str]) -> list[str]:
    """The selectors with which rules search a page. `rules`: what they know, by name."""
    return [known for name, known in rules.items() if _BY_NAME[name].knows_selector]


def decode_parts(kind: type, value: object) -> RuleParts:
    """Parts that another process sent. Raises ValueError, also for a part that no rule checks."""
    if kind is not RuleParts or not isinstance(value, dict):
        raise ValueError(f"not the parts of rules: {kind}")
    parts = RuleParts()
    for name, sent in value.items():
        if name not in _BY_NAME:
            raise ValueError("a part of a rule that does not exist")
        parts[name] = part = convert(sent, _BY_NAME[name].part)
        part.check()
    return parts
