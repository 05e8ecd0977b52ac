"""All rules of the page: their names, and parts of them that another process sends."""

import random
from typing import Any

import msgspec
import pytest

from crawl_engine.model.link import PageBlocks
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.request import check_answer
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules import RULES, RuleParts, decode_parts
from crawl_engine.node.rules.canonical import CanonicalPart
from crawl_engine.node.rules.lacking import IncompletePart, UnrenderedPart
from crawl_engine.node.rules.lost_login import LostLoginPart
from crawl_engine.node.rules.noindex import NoindexPart
from crawl_engine.node.rules.page_digest import RepeatPart
from crawl_engine.node.rules.page_series import SeriesPart
from crawl_engine.node.rules.refresh import RefreshPart
from crawl_engine.node.rules.rule import PageRule, RulePart
from crawl_engine.node.rules.script_redirect import ScriptedPart
from crawl_engine.processes.frames import InvalidAnswer
from tests.unit.node.extraction.messages import changed, fields_of, message_of, read_back
from tests.unit.node.extraction.tasks import request

PARTS: dict[str, RulePart] = {
    "refresh": RefreshPart("http://a/é", is_own=True), "login": LostLoginPart(), "unrendered": UnrenderedPart(),
    "incomplete": IncompletePart(), "canonical": CanonicalPart("http://a/é"), "scripted": ScriptedPart(leads_on=True),
    "noindex": NoindexPart(drops_rows=True), "series": SeriesPart(PageBlocks(True, "ab12"), is_repeated=True),
    "repeats": RepeatPart(7, "a-1"),
}  # fmt: skip
"""An example of each part."""
FORGED: dict[str, tuple[Any, ...]] = {
    "refresh": ({"target": "javascript:1"}, {"target": ""}, {"target": None}, {}), "login": (7, None),
    "unrendered": ([],), "incomplete": ("x",), "canonical": ({"url": "file:///x"}, {"url": "javascript:1"}, {}),
    "scripted": ({}, {"leads_on": 1}), "noindex": ({"drops_rows": "x"}, {}),
    "series": (
        {"blocks": 7}, {"blocks": [1, "x"]}, {"blocks": [True]}, {"blocks": [True, "x" * 65]}, {"blocks": ["a", "b"]},
        {"is_repeated": 1}, {"shows_nothing": None},
    ),
    "repeats": ({"digest": 0}, {"digest": 2**63}, {"digest": "1"}, {}),
}  # fmt: skip
"""What a rule refuses: a wrong type, a missing field, an impossible value."""


@pytest.fixture(params=[rule for rule in RULES if rule.part is not None], ids=lambda rule: rule.name)
def rule(request: pytest.FixtureRequest) -> PageRule:
    found: PageRule = request.param
    return found


def test_each_rule_has_a_name_of_its_own_and_is_tried_here() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert sorted(PARTS) == sorted(FORGED) == sorted(rule.name for rule in RULES if rule.part is not None)


def test_the_part_of_a_rule_is_read_back(rule: PageRule) -> None:
    part = PARTS[rule.name]
    assert type(part) is rule.part
    page = PageResult(page_kind="html", parts=RuleParts({rule.name: part}))
    assert read_back(page).parts == {rule.name: part}


def test_a_part_that_the_rule_refuses_is_an_invalid_answer(rule: PageRule) -> None:
    for forged in FORGED[rule.name]:
        with pytest.raises(InvalidAnswer):
            wire.decode_answer(changed(PageResult(page_kind="html"), parts={rule.name: forged}))


def test_a_part_of_random_content_is_refused_or_has_the_types_of_its_rule(rule: PageRule) -> None:
    rng = random.Random(5)
    assert rule.part is not None
    fields = [field.name for field in msgspec.structs.fields(rule.part)]
    values = [None, True, -1, 2**63, 1.5, "", "x" * 100, "http://a/", b"x", [], [1, "a"], {}, {"a": 1}, [True, "ab"]]
    for _ in range(300):
        sent = {name: rng.choice(values) for name in fields if rng.random() < 0.9}
        try:
            answer = wire.decode_answer(changed(PageResult(page_kind="html"), parts={rule.name: sent}))
        except InvalidAnswer:
            continue
        assert isinstance(answer, PageResult)
        part = answer.parts[rule.name]
        assert msgspec.convert(msgspec.to_builtins(part), rule.part) == part


def test_damaged_bytes_of_a_part_raise_nothing_else(rule: PageRule) -> None:
    rng = random.Random(7)
    message = message_of(PageResult(page_kind="html", parts=RuleParts({rule.name: PARTS[rule.name]})))
    for _ in range(500):
        damage = bytearray(message)
        for _ in range(rng.randint(1, 4)):
            damage[rng.randrange(len(damage))] = rng.randrange(256)
        try:
            wire.decode_answer(bytes(damage))
        except InvalidAnswer:
            continue


@pytest.mark.parametrize(
    "parts", [{"other": {}}, {"other": None}, {5: {}}, [], "x", None, 7, {"": {}}, {"form_page": {}}]
)
def test_a_part_without_a_rule_is_an_invalid_answer(parts: Any) -> None:
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(changed(PageResult(page_kind="html"), parts=parts))
    with pytest.raises(ValueError):
        decode_parts(RuleParts, parts or {"": {}})


def test_a_part_that_was_not_asked_for_is_an_invalid_answer(rule: PageRule) -> None:
    asked = request()
    answer = read_back(PageResult(page_kind="html", parts=RuleParts({rule.name: PARTS[rule.name]})))
    with pytest.raises(InvalidAnswer):
        check_answer(asked, answer)
    asked.header["context"]["rules"] = {rule.name: ""}
    check_answer(asked, answer)
    assert "parts" in fields_of(answer)
