"""Names come before patterns, longer patterns before shorter ones, and `*` last."""

import pytest

from crawl_engine.host_rules import HostRules
from crawl_engine.urls import QueryStripper


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("a.shop.example:443", "a.shop.example"),
        ("a.shop.example:8080", "a.shop.example:8080"),
        ("b.shop.example:443", "*.shop.example"),
        ("b.shop.example:81", "*.shop.example:81"),
        ("deep.b.shop.example:443", "*.shop.example"),
        ("shop.example:443", "*.example"),
        ("x.eu.shop.example:80", "*.eu.shop.example"),
        ("img3.shop.example:80", "img*.shop.example"),
        (".shop.example:80", "*.example"),
        ("127.0.0.8:80", "127.0.0.*"),
        ("[::1]:80", "*"),
        ("other:80", "*"),
        ("file:0", None),
    ],
)
def test_the_rule_of_a_host(host: str, rule: str | None) -> None:
    names = (
        "*", "a.shop.example", "a.shop.example:8080", "*.example", "*.shop.example", "*.shop.example:81",
        "*.eu.shop.example", "img*.shop.example", "127.0.0.*",
    )  # fmt: skip
    assert HostRules({name: name for name in names}).find(host) == rule


def test_no_pattern_no_rule() -> None:
    assert HostRules({"a": 1}).find("b:80") is None


def test_a_name_that_drops_nothing_overrides_a_pattern_that_does() -> None:
    stripper = QueryStripper({"*": ["utm_*"], "shop.example": []})
    assert stripper.strip_url("https://shop.example/?utm_a=1") == "https://shop.example/?utm_a=1"
    assert stripper.strip_url("https://other.example/?utm_a=1") == "https://other.example/"
