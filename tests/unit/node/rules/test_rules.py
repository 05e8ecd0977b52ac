"""All rules of the page: their names, and parts of them that another process sends."""

import random
from typing import Any

import msgspec
import pytest

from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.request import check_answer
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules import RULES, RuleParts, decode_parts
from crawl_engine.node.rules.canonical import CanonicalPart
from crawl_engine.node.rules.rule import PageRule, RulePart
from crawl_engine.processes.frames import InvalidAnswer
from tests.unit.node.extraction.messages import changed, fields_of, message_of, read_back
from tests.unit.node.extraction.tasks import request

PARTS: dict[str, RulePart] = {"canonical": CanonicalPart("http://a/é")}
"""An example of each part."""
FORGED: dict[str, tuple[dict[str, Any], ...]] = {"canonical": ({"url": "file:///x"}, {"url": "javascript:1"}, {})}
"""What types alone do not refuse, or a missing field."""


@pytest.fixture(params=RULES, ids=lambda rule: rule.name)
def rule(request: pytest.FixtureRequest) -> PageRule:
    found: PageRule = request.param
    return found


def test_each_rule_has_a_name_of_its_own_and_is_tried_here() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert sorted(PARTS) == sorted(FORGED) == sorted(names)


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


@pytest.mark.parametrize("parts", [{"other": {}}, {"other": None}, {5: {}}, [], "x", None, 7, {"": {}}])
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
