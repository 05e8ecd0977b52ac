"""Each rule of the page alone: whom it concerns, what it knows of a job, what it finds, and what becomes of the job."""

from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.page import PageKind
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, TaskGroup
from crawl_engine.model.host import HostRule, LoginRule, RetryRule
from crawl_engine.model.job import HostPlan, JobKind, JobState, LeasedJob, Request
from crawl_engine.model.link import Carried, NextPage, RequestTemplate
from crawl_engine.model.step import BrowserRule, GroupLoading, RenderWhen
from crawl_engine.node.rules import RULES, RuleParts, RulesOfPlans, judge_headers, judge_lack, judge_page, prepare_alone
from crawl_engine.node.rules.form_page import FormPageRule
from crawl_engine.node.rules.lacking import IncompletePart, IncompleteRule, UnrenderedPart, UnrenderedRule
from crawl_engine.node.rules.lost_login import LostLoginPart, LostLoginRule
from crawl_engine.node.rules.noindex import NoindexPart, NoindexRule
from crawl_engine.node.rules.page_digest import RepeatPart, RepeatRule
from crawl_engine.node.rules.page_series import SeriesPart, SeriesRule
from crawl_engine.node.rules.refresh import RefreshPart, RefreshRule
from crawl_engine.node.rules.rule import Decision, EndPage, JudgedPage, LogInAgain, PageRule, RetryPage, SkipPage
from crawl_engine.node.rules.script_redirect import ScriptedPart, ScriptedRule
from crawl_engine.settings import Settings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.page_repeats import PageSeen
from tests.unit.extract.pages import CONTEXT, page
from tests.unit.node.leased_jobs import change, leased, visited

JOB = leased(1)
EXTRACT = change(JOB, kind=JobKind.EXTRACT, page_job=42)
LOGIN = LoginRule(url="/login", form={}, check=".logout")
WHEN_PRICE = GroupLoading(browser=BrowserRule(when=RenderWhen(missing=".price")))
PLANS = {
    "login": HostPlan(rule=HostRule(name="a", login=LOGIN)),
    "unrendered": HostPlan(group=TaskGroup(name="g", loader=WHEN_PRICE)),
    "incomplete": HostPlan(retry=RetryRule(missing=".price")),
    "canonical": HostPlan(group=TaskGroup(name="g", canonical=True)),
}
"""The plans that rules need which do not concern all."""
EXTRACTOR = RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector="b"),)))


def judged(text: str, rules: dict[str, str], kind: PageKind = "html", **data_def: Any) -> JudgedPage:
    """A page, and what its one dataDef gave."""
    extractor = RecordExtractor(DataDef(name="d", **data_def)) if data_def else EXTRACTOR
    one = page(text, kind=kind)
    extraction = extractor.extract(one, CONTEXT)
    context = replace(CONTEXT, rules=rules, agent="bot")
    return JudgedPage(one, context, [extractor], found=[extraction], links=list(extraction.links))


def find(rule: PageRule, known: str, text: str, kind: PageKind = "html", **data_def: Any) -> Any:
    return rule.judge(known, judged(text, {}, kind, **data_def))


def prepare(rule: PageRule, job: LeasedJob = JOB, **more: Any) -> str | None:
    return rule.prepare(job, visited(**more), Settings())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_plan_leaves_out_the_rules_that_do_not_concern_it(rule: PageRule) -> None:
    assert rule.applies(HostPlan(), Settings()) is (rule.name not in PLANS)
    assert rule.applies(PLANS.get(rule.name, HostPlan()), Settings())
    assert not RefreshRule().applies(HostPlan(), Settings(meta_refresh=False))
    assert not ScriptedRule().applies(HostPlan(has_loader=True), Settings())


def test_a_plain_page_is_judged_by_few_rules_and_a_preview_by_fewer() -> None:
    rules = RulesOfPlans(Settings())
    assert list(rules.prepare(JOB, visited())) == ["refresh", "scripted", "noindex", "repeats"]
    assert list(rules.prepare(EXTRACT, visited())) == ["noindex"]
    in_chain = JOB._replace(plan=HostPlan(leads_on=True))
    assert list(rules.prepare(in_chain, visited())) == ["refresh", "scripted", "noindex", "series", "repeats"]
    assert list(prepare_alone(Settings())) == ["noindex", "series"]


def test_the_rule_that_leaves_nothing_of_a_page_has_the_only_part() -> None:
    own = "<meta http-equiv=refresh content=0>"
    parts = RuleParts()
    assert not judge_page(judged(own, {"refresh": "", "login": "p"}), parts, reads_rows=True)
    assert not parts
    assert judge_page(judged(own, {"refresh": "", "login": "p", "incomplete": "p"}), parts, reads_rows=False)
    assert parts == {"login": LostLoginPart()}
    assert parts.ends_page
    parts = RuleParts()
    assert not judge_page(judged(f"{own}<p>", {"refresh": "", "login": "p"}), parts, reads_rows=False)
    assert (list(parts), parts.ends_page, parts.keeps_rows) == (["refresh"], False, True)


def test_a_page_without_the_element_of_a_login_is_asked_for_after_a_new_one() -> None:
    rule = LostLoginRule()
    assert (prepare(rule), prepare(rule, login=LOGIN)) == (None, ".logout")
    assert prepare(rule, login=replace(LOGIN, check="")) is None
    assert find(rule, ".logout", "<p>") == LostLoginPart()
    assert find(rule, ".logout", "<p class=logout>") is None
    assert find(rule, ".logout", "{}", "json") is None
    assert LostLoginPart().decide(JOB) == LogInAgain(reason="the page lacks `check`")


def test_a_page_that_lacks_what_its_host_shows_is_retried() -> None:
    rule, fetched = IncompleteRule(), visited()
    job = JOB._replace(plan=PLANS["incomplete"])
    assert rule.prepare(job, fetched, Settings()) is None, "it is stored"
    assert find(rule, ".price", "<p>") == IncompletePart()
    assert find(rule, ".price", "<p class=price>") is None
    assert find(rule, "required", "<p>") is None
    assert IncompletePart().decide(job) == RetryPage(reason="the page lacks `.price`")
    required = job._replace(plan=HostPlan(retry=RetryRule(missing="required")))
    assert IncompletePart().decide(required) == RetryPage(reason="the page lacks a required field")


def test_a_page_without_rows_is_incomplete_or_needs_the_browser_in_the_order_of_the_rules() -> None:
    rules = {"refresh": "", "unrendered": "required", "incomplete": "required", "series": ""}
    series = SeriesPart(shows_nothing=True)
    parts = judge_lack(rules, RuleParts({"series": series}))
    assert list(parts.items()) == [
        ("unrendered", UnrenderedPart()),
        ("incomplete", IncompletePart()),
        ("series", series),
    ]
    assert judge_lack({"incomplete": ".price"}, RuleParts()) == {}
    ended = judge_lack(rules, RuleParts({"scripted": ScriptedPart(leads_on=False)}))
    assert list(ended) == ["unrendered"], "a browser runs the script; what it makes is judged again"
    assert find(UnrenderedRule(), ".price", "<p>") == UnrenderedPart()


def test_noindex_is_noted_and_may_cost_the_rows() -> None:
    rule, meta = NoindexRule(), "<meta name=robots content=noindex>"
    assert rule.prepare(JOB, visited(), Settings(meta_noindex=True)) != prepare(rule)
    assert find(rule, "", "<p>") is None
    kept, dropped = (find(rule, known, meta) for known in ("", rule.prepare_alone(Settings(meta_noindex=True))))
    assert (kept.keeps, dropped.keeps, kept.note) == ("all", "links", "noindex")
    tagged = judge_headers({"noindex": "", "refresh": ""}, [("x-robots-tag", "bot: noindex")], "bot")
    assert tagged == {"noindex": NoindexPart(drops_rows=False)}
    for job, counted in ((JOB, True), (EXTRACT, False)):
        outcome = JobOutcome(job=job, state=JobState.DONE)
        kept.add_to(outcome, Settings())
        assert outcome.stats.noindex is counted


def test_what_a_page_shows_is_digested_unless_its_request_has_a_body() -> None:
    rule, settings = RepeatRule(), Settings(max_repeats=5)
    each = rule.prepare(JOB, visited(), settings)
    assert each
    assert rule.prepare(JOB._replace(request=Request(method="POST", body="a")), visited(), settings) is None
    part = find(rule, each, "<b>x</b>")
    assert part == find(rule, each, "<b class=y>x</b>") != find(rule, each, "<b>y</b>")
    assert not part.remembered
    outcome = JobOutcome(job=JOB, state=JobState.DONE)
    part.add_to(outcome, Settings(max_repeats=5))
    assert outcome.effects == (PageSeen(part.digest, 5),)
    assert isinstance(part, RepeatPart)


def test_without_a_limit_a_text_is_digested_only_behind_a_page_of_the_same_sequence_with_the_same_fields() -> None:
    rules, rule = RulesOfPlans(Settings()), RepeatRule()

    def extract(text: str, sequence: int = 1) -> RepeatPart:
        job = JOB._replace(sequence=sequence)
        part = find(rule, rules.prepare(job, visited())[rule.name], text)
        rules.remember(job, RuleParts({rule.name: part}))
        assert isinstance(part, RepeatPart)
        return part

    first, second, third, other = [extract(text) for text in ("<b>x</b>", "<b>x</b>", "<b>x</b>", "<b>y</b>")]
    assert first.digest == 0
    assert second == third
    assert second.digest not in (0, other.digest)
    assert extract("<b>x</b>", sequence=2).digest == 0


def test_a_refresh_to_the_page_itself_keeps_it() -> None:
    rule = RefreshRule()
    assert (prepare(rule), prepare(rule, EXTRACT)) == ("", None)
    own, other = (find(rule, "", f"<meta http-equiv=refresh content='0;url={url}'>") for url in ("", "/x"))
    assert (own.is_own, own.keeps, other.keeps) == (True, "all", "nothing")
    assert other == RefreshPart("https://shop.example/x")
    assert other.decide(JOB) is None, "the stage FollowRefresh follows it"


def test_a_page_that_only_a_script_leaves_is_skipped() -> None:
    rule, text = ScriptedRule(), "<script>location.href = '/x'</script>"
    assert (prepare(rule), prepare(rule, EXTRACT)) == ("", None)
    found = judged(text, {})
    assert rule.judge("", found) == ScriptedPart(leads_on=False)
    ((_, _, code), warning) = next(iter(found.page.warnings.items()))
    assert code == "script-redirect"
    assert "leads to /x. Such pages are skipped" in warning.text
    assert find(rule, "", f"<b>x</b>{text}") is None
    in_series = prepare(rule, change(JOB, page_number=2))
    assert in_series is not None
    assert find(rule, in_series, text).decide(JOB).confirm == "nothing on the page"
    assert ScriptedPart(leads_on=False).decide(JOB).confirm == ""
    assert isinstance(ScriptedPart(leads_on=False).decide(JOB), SkipPage)


def test_an_empty_page_ends_its_chain_and_a_repeated_one_gives_nothing() -> None:
    rule, next_page = SeriesRule(), NextPage(request=RequestTemplate(url="/x?n=%{n}"), variables=(("n", "i"),))
    carried = change(JOB, carried=Carried(blocks="ab").to_json())
    in_chain = carried._replace(plan=HostPlan(leads_on=True))
    prepared = [prepare(rule, job) for job in (carried, in_chain, change(carried, page_number=2))]
    assert prepared == [None, "ab", "in series ab"]
    assert find(rule, "", "<b>x</b>") is None
    empty = find(rule, "", "<p>", block="b", next=next_page)
    assert (empty, empty.decide(JOB)) == (SeriesPart(shows_nothing=True), Decision(confirm="nothing on the page"))
    assert find(rule, "", "<b>x</b><i>2</i>", block="b", next=next_page) is None
    first = find(rule, "in series ", "<b>x</b>", block="b")
    assert (first.blocks.present, first.keeps, first.decide(JOB)) == (True, "all", None)
    again = find(rule, f"in series {first.blocks.digest}", "<b>x</b>", block="b")
    assert (again.is_repeated, again.keeps, type(again.decide(JOB))) == (True, "nothing", EndPage)


def test_the_answer_to_a_form_that_is_its_page_is_warned_of() -> None:
    rule = FormPageRule()
    assert (prepare(rule), prepare(rule, change(JOB, carried=Carried(values={"a": "b"}).to_json()))) == (None, None)
    assert prepare(rule, change(JOB, carried=Carried(form_page="ab").to_json())) == "ab"
    found = judged("<p>x", {})
    rule.judge("ab", found)
    assert not found.page.warnings
