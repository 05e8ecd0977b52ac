"""No problem of defs quotes a secret that a typo put where a name or another value belongs."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.defs.yaml.redaction import shown_host, shown_key
from crawl_engine.errors import DefsError

TYPOS = {
    "colon in a quoted header": 'headers: {"X-Key: CANARY": b}',
    "the same in block style": 'headers:\n          "X-Key: CANARY": b',
    "quoted whole": 'headers: {"X-Key: CANARY"}',
    "no space in a flow mapping": "headers: {Authorization:Bearer CANARY}",
    "that with a value": "headers: {Authorization:Bearer CANARY: b}",
    "twice": 'headers: {"X-Key: CANARY": a, "X-Key: CANARY": b}',
    "cookie": 'cookies: {"s=CANARY": x}',
    "cookie as a text": "cookies: s=CANARY",
    "nested": 'headers: {X-Key: {"a=CANARY": b}}',
    "tag": "headers: {X-Key: !CANARY}",
    "tag with a value": "headers: {X-Key: !CANARY text}",
    "long tag": "headers: {X-Key: !<CANARY> text}",
    "tag handle": "headers: {X-Key: !CANARY!x text}",
    "alias": "headers: {X-Key: *CANARY}",
    "anchor of itself": "headers: &CANARY {X-Key: *CANARY}",
    "unclosed": "headers: {X-Key: 'CANARY}",
    "tab": "headers:\n\tX-Key: CANARY",
    "percent": "headers: {X-Key: %CANARY}",
    "outside of headers": '"Authorization: Bearer CANARY": x',
    "outside, no space": "{Authorization:Bearer CANARY}",
    "a text for a mapping": '"X-Key: CANARY"',
    "credentials for a number": "delay: http://us:CANARY@h/",
}
LOCATORS = {
    "URL for a list": "urls: http://us:CANARY@h/",
    "URL for a mapping": "- http://us:CANARY@h/",
    "URL as a key": '"http://us:CANARY@h/": x',
    "wrong place": "- {url: {http://us:CANARY@h/: x}}",
    "relative": '- {url: "us:CANARY@h"}',
    "list that is a URL": '- {from: "http://us:CANARY@h/list"}',
}
HOST_NAMES = ("http://us:CANARY@shop.example", "us:CANARY@shop.example", "X-Key=CANARY", "shop.example X-Key: CANARY")


def report(folder: Path, text: str) -> str:
    """The problems of these defs, as `check` prints them."""
    (folder / "crawl.yml").write_text(text)
    with pytest.raises(DefsError) as refused:
        load(folder)
    return "\n".join(str(problem) for problem in refused.value.problems)


@pytest.mark.parametrize("written", TYPOS.values(), ids=TYPOS)
def test_a_typo_in_a_host_rule_prints_no_secret(tmp_path: Path, written: str) -> None:
    shown = report(tmp_path, f"hosts:\n    shop.example:\n        {written}\n")
    assert "crawl.yml:" in shown
    assert "CANARY" not in shown


@pytest.mark.parametrize("written", LOCATORS.values(), ids=LOCATORS)
def test_a_typo_in_a_locator_prints_no_secret(tmp_path: Path, written: str) -> None:
    lead = written if written.startswith("-") else f"- {written}"
    shown = report(tmp_path, f"locatorGroups:\n  g:\n    locators:\n      {lead}\n      - 1\n")
    assert "CANARY" not in shown


@pytest.mark.parametrize("section", ["baseUrl: [http://us:CANARY@h/]", "hosts: http://us:CANARY@h/"])
def test_a_section_of_the_wrong_kind_prints_no_secret(tmp_path: Path, section: str) -> None:
    assert "CANARY" not in report(tmp_path, f"{section}\nnothing: 1\n")


@pytest.mark.parametrize("name", HOST_NAMES)
def test_a_host_that_is_none_prints_no_secret(tmp_path: Path, name: str) -> None:
    shown = report(tmp_path, f'hosts:\n  "{name}": {{delay: 1}}\n  "{name}": {{delay: 2}}\n')
    assert "is already defined" in shown
    assert "CANARY" not in shown


def test_names_are_shown_as_far_as_they_help() -> None:
    assert shown_key("X-Key: secret") == shown_key("X-Key=secret") == shown_key("X-Key secret") == "X-Key…"
    assert shown_key("X-Key") == "X-Key"
    assert shown_host("shop.example:99999") == "shop.example:99999"
    assert shown_host("us:pw@shop.example") == "…@shop.example"
