"""The user agents of a robots.txt: which groups are ours, and what is left out before they are parsed."""

import time

import pytest

from engine.fetch.robots import RobotsRules
from engine.fetch.robots_groups import drop_other_agents, read_rules

MIXED = """User-agent: a
User-agent: b
User-agent: *
Disallow: /one
Sitemap: https://shop.example/s.xml
User-agent: c
Disallow: /two
User-agent: d
# a remark
User-agent: e
User-agent: acme
Allow: /one

User-agent: f
User-agent: g
Disallow: /three"""


@pytest.mark.parametrize("agent", ["acme", "other"])
def test_leaving_out_other_agents_changes_no_group(agent: str) -> None:
    lines = MIXED.splitlines()
    kept, is_named = drop_other_agents(lines, agent)
    assert is_named is (agent == "acme")
    dropped = {"User-agent: b", "User-agent: e", "User-agent: g"} | ({"User-agent: acme"} - {f"User-agent: {agent}"})
    assert {line for line in lines if line not in kept} == dropped
    assert len(kept) == len(lines)
    for name in ("acme", "*") if agent == "acme" else ("*",):
        assert read_rules("\n".join(kept), name) == read_rules(MIXED, name) != []


def test_many_agents_with_many_rules_are_read_in_linear_time() -> None:
    agents = "".join(f"User-agent: a{number}\n" for number in range(16_000))
    rules = "".join(f"Allow: /a{number}\n" for number in range(16_000))
    began = time.process_time()
    assert RobotsRules.parse(agents + "User-agent: *\n" + rules + "Disallow: /b\n", "acme").allowed("http://h.example/")
    assert time.process_time() - began < 3  # 0.2 s; each rule for each agent: minutes


@pytest.mark.parametrize("record", ["Content-Signal: search=yes", "Noindex: /x", "X: y", "# comment", "", "some words"])
def test_records_of_other_protocols_do_not_end_the_agents_of_a_group(record: str) -> None:
    rules = RobotsRules.parse(f"User-agent: acme\n{record}\nUser-agent: foo\nDisallow: /no\n", "acme")
    assert rules.allowed("http://h/yes")
    assert rules.disallowing_rule("http://h/no") == "line 4: Disallow: /no"
