"""Which dataDefs count as costly: those whose time may be more than linear in the size of a page."""

import pytest

from engine.extract.cost import Cost
from engine.extract.records import RecordExtractor
from engine.model.definition import DataDef, Field, FilterRule
from engine.model.link import Link


def is_costly(**parts: object) -> bool:
    return RecordExtractor(DataDef(name="d", **parts)).cost >= Cost.SQUARE  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "selector",
    [
        *("tr:nth-child(2) td", "tr:NTH-last-child(1)", "p:last-of-type", "h2 ~ p", "li:has(a)", "a:not(p ~ q r)"),
        *("xpath: //a/following::b", "xpath: //a[ancestor :: b]", "xpath: count(//a)", "xpath: //tr[//th]"),
        "xpath: sum(//td)",
    ],
)
def test_selectors_that_may_be_quadratic_are_costly(selector: str) -> None:
    assert is_costly(fields=(Field(name="f", selector=selector),))
    assert is_costly(block=selector, fields=(Field(name="f", selector="a"),))
    inner = (Field(name="i", selector=selector),)
    assert is_costly(fields=(Field(name="f", selector="li", fields=inner),))
    assert is_costly(links=(Link(selector=selector),))


@pytest.mark.parametrize(
    "selector",
    [
        *("table tr td", '[class~="x"] > a + b', "li:first-child, li:last-child", "a:not(p q)", "jmespath: a[*].b"),
        *("xpath: //tr/td[2]", "xpath: //a[contains(@href, 'x')]/@href", "xpath: .//td/self::td", None),
    ],
)
def test_linear_selectors_are_not(selector: str | None) -> None:
    assert not is_costly(fields=(Field(name="f", selector=selector),))


def test_patterns_of_the_user_are_costly() -> None:
    plain = (Field(name="f", selector="a"),)
    assert not is_costly(fields=plain, links=(Link(selector="a"),))
    assert is_costly(fields=(Field(name="f", selector="a", match="x"),))
    assert is_costly(fields=plain, links=(Link(selector="a", allow=("x",)),))
    assert is_costly(fields=plain, links=(Link(selector="a", deny=("x",)),))
    assert is_costly(fields=plain, filters=(FilterRule(field="f", pattern="x"),))
