"""Patterns of the defs: the same results with and without a time limit, and the limit where a search could be long."""

import re

import pytest

from crawl_engine.extract.page.patterns import PatternTimeout, Replacement, TimeBudget, TimedPattern

PATTERNS = (r"\.html?$", "[£,]", r"\d+", r"[A-Z]+-\d+", "a|ab|abc", r"(\d+) of", r"x{2}", r"^\s*", "ab?c?", r"\.")
TEXTS = ("", "£1,234.50", "http://shop.test/items/COF-00012.html", "3 of 15 xx abc", "1,2,3 " * 4000)
"""The last one is longer than any text that is searched without a limit."""


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS, ids=["empty", "price", "url", "words", "long"])
def test_matches_are_those_of_the_standard_library(pattern: str, text: str) -> None:
    timed, expected, budget = TimedPattern(pattern), re.compile(pattern), TimeBudget()
    first = expected.search(text)
    group = expected.groups and 1
    assert timed.has_match(text, budget) is (first is not None)
    assert timed.find(text, budget) == (None if first is None else first.group(group))
    assert timed.find_all(text, budget, limit=50_000) == [match.group(group) for match in expected.finditer(text)]
    assert timed.fullmatch(text, budget) is (expected.fullmatch(text) is not None)
    for template in ("", "a-$1&", r"<\g<0>>"):
        assert Replacement(pattern, template).apply(text, budget) == expected.sub(template, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|aa)+$", "a" * 60 + "!"),
        ("[ab]*[ab]*[ab]*[ab]*[cd]", "ab" * 300),
        ("[ab]+[ab]+[ab]+[cd]", "ab" * 1_000),
    ],
)
def test_a_search_that_backtracks_too_much_ends_at_its_limit(pattern: str, text: str) -> None:
    with pytest.raises(PatternTimeout, match="did not finish within"):
        TimedPattern(pattern).has_match(text, TimeBudget())


def test_many_quick_searches_are_no_fault_of_the_pattern() -> None:
    budget, pattern = TimeBudget(), TimedPattern("x")
    for _ in range(1_000):
        budget.record(pattern, 0.005)
    assert budget.remaining_for(pattern) > 0
    for _ in range(100):
        budget.record(pattern, 0.015)
    with pytest.raises(PatternTimeout, match="slow searches of 'x' took more than 1 s"):
        budget.remaining_for(pattern)
