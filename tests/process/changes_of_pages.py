"""Changes of what a node does with a page, as in `changes.py`: a rule that skips pages which say `noarchive`."""

from tests.process.change import Change, Edit, before

RULE = Change(
    section="a rule of the page",
    code={
        "engine/crawl_engine/node/rules/noarchive.py": [
            Edit(
                '''"""Skips a page that asks not to be archived, by its header or its `<meta>`."""

from typing import ClassVar

from crawl_engine.model.job import LeasedJob
from crawl_engine.node.rules.rule import Arrival, JudgedPage, PageRule, RulePart, SkipPage
from crawl_engine.settings import Settings


class NoarchivePart(RulePart, frozen=True):
    """The page says `noarchive`."""

    def decide(self, _job: LeasedJob) -> SkipPage:
        return SkipPage(reason="it says noarchive")


class NoarchiveRule(PageRule, frozen=True):
    """For all pages."""

    name: ClassVar[str] = "noarchive"
    part: ClassVar[type[RulePart]] = NoarchivePart

    def prepare(self, _job: LeasedJob, _arrival: Arrival, _settings: Settings) -> str:
        return ""

    def judge(self, _known: str, judged: JudgedPage) -> NoarchivePart | None:
        return NoarchivePart() if "noarchive" in judged.page.robots(judged.context.agent) else None
'''
            )
        ],
        "engine/crawl_engine/node/rules/__init__.py": [
            before(
                "from crawl_engine.node.rules.noindex import",
                "from crawl_engine.node.rules.noarchive import NoarchiveRule\n",
            ),
            before("    CanonicalRule(),\n", "    NoarchiveRule(),\n"),
        ],
    },
    beside={
        "tests/unit/node/rules/test_rules.py": [
            before(
                "from crawl_engine.node.rules.noindex import",
                "from crawl_engine.node.rules.noarchive import NoarchivePart\n",
            ),
            before('"login": LostLoginPart(),', '"noarchive": NoarchivePart(), '),
            before('"login": (7, None),', '"noarchive": (7, None), '),
        ],
        "tests/unit/node/rules/test_page_rules.py": [
            Edit('["refresh", "noarchive", "scripted", "noindex", "r', '["refresh", "scripted", "noindex", "r'),
            Edit('["refresh", "noarchive", "scripted", "noindex", "s', '["refresh", "scripted", "noindex", "s'),
            Edit('== ["noarchive", "noindex"]\n    in_chain', '== ["noindex"]\n    in_chain'),
        ],
    },
    check="""
import asyncio
from unittest.mock import Mock

from crawl_engine.model.job import JobState
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.page_extraction import apply_data_defs, parse_page
from crawl_engine.node.handlers.act_on_rules import ActOnRules
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.rules import RulesOfPlans
from crawl_engine.settings import Settings
from msgspec.structs import replace
from tests.unit.extract.pages import CONTEXT
from tests.unit.node.leased_jobs import leased, visited

job = leased(1)
context = replace(CONTEXT, rules=RulesOfPlans(Settings()).prepare(job, visited()))

def state_of(text, *headers):
    page = parse_page(text, "text/html", url=job.url, status=200, fetched_at=0.0, headers=headers)
    result = apply_data_defs(page, context, [], 100)
    arrived = visited(extraction=PageExtraction(result), url=job.url)
    stage = ActOnRules(Mock(list_children=lambda *_: ()), Mock(), OutcomeBuilder(source="n1", max_attempts=3))
    outcome = asyncio.run(stage.run(job, arrived))
    return None if outcome is arrived else (outcome.state, outcome.reason)

skipped = (JobState.SKIPPED, "it says noarchive")
assert state_of(b"<p>x") is None
assert state_of(b"<meta name=robots content='noindex, noarchive'><p>x") == skipped
assert state_of(b"<p>x", ("x-robots-tag", "noarchive")) == skipped
""",
    tests=["tests/unit/node/rules"],
)

CHANGES_OF_PAGES = {change.section: change for change in (RULE,)}
