"""`Content-Signal` of robots.txt: groups, case, comments, duplicates, hostile files."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.robots.content_signal import read_content_signal
from crawl_engine.robots.rules import RobotsRules

AGENT = "crawl-console"
CLOUDFLARE = """\
# (a) If a content-signal = yes, you may collect content for the corresponding use.
# Content-Signal: search=no
User-Agent: *
Content-Signal: search=yes,ai-train=no
Allow: /

User-agent: GPTBot
Content-Signal: ai-input=no
Disallow: /
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CLOUDFLARE, {"search": "yes", "ai-train": "no"}),
        ("\ufeffUser-agent: *\r\nCONTENT-signal :  Search = YES , B= No # why\r\n", {"search": "yes", "b": "no"}),
        ("User-agent: *\rContent-Signal: search=yes\rDisallow:\r", {"search": "yes"}),
        ("User-agent: *\nContent-Signal: search=no\nUser-agent: Crawl-Console/2\nDisallow:\n", {}),
        (f"User-agent: *\nContent-Signal: search=no\nUser-agent: {AGENT}\nContent-Signal: x=yes", {"x": "yes"}),
        (f"User-agent: bot\nUser-agent: {AGENT}\nDisallow: /\nContent-Signal: search=no", {"search": "no"}),
        ("User-agent: *\nContent-Signal: search=no\nUser-agent: bot\nContent-Signal: search=yes", {"search": "no"}),
        ("User-agent: bot\nSitemap: x\nUser-agent: *\nContent-Signal: search=yes", {"search": "yes"}),
        ("User-agent: *\nDisallow: /a\n\nUser-agent: b\nAllow: /\n\nUser-agent: *\nContent-Signal: x=no", {"x": "no"}),
        ("User-agent: *\nContent-Signal: a=yes, a=no, a=yes\nContent-Signal: a=yes, b=yes", {"a": "no", "b": "yes"}),
        ("User-agent: *\nContent-Signal: , =yes, /p search=yes, a=maybe, b, 1=no, c=no=no, d = no", {"d": "no"}),
        ("Content-Signal: search=yes\nUser-agent: *\nDisallow: /", {}),
        ("X-Content-Signal: search=yes\nUser-agent: *\nContent-Signals: search=yes\n", {}),
        ("", {}),
        ("<html>Content-Signal: search=yes</html>", {}),
    ],
)  # fmt: skip
def test_the_signal_of_a_file(text: str, expected: dict[str, str]) -> None:
    assert read_content_signal(text, AGENT) == expected


def test_without_a_product_token_the_group_of_all_counts() -> None:
    assert read_content_signal(CLOUDFLARE, "") == {"search": "yes", "ai-train": "no"}


def test_rules_stay_as_they_are_beside_signals() -> None:
    rules = RobotsRules("User-agent: *\nContent-Signal: search=yes\nDisallow: /private", AGENT)
    assert rules.disallowing_rule("https://h/private") == "line 3: Disallow: /private"
    assert rules.disallowing_rule("https://h/") is None


@pytest.mark.parametrize(
    "text",
    [
        "User-agent: *\n" + "Content-Signal: a=yes\n" * 20_000,
        "User-agent: *\nContent-Signal: " + "a=yes," * 80_000,
        "User-agent: *\nContent-Signal: " + ",".join(f"use-{number}=no" for number in range(40_000)),
        "User-agent: *\nContent-Signal: " + "a" * 500_000,
        "User-agent: *\nContent-Signal:" + " " * 500_000 + "x",
        "User-agent: *\nContent-Signal: a=yes" + "\n" * 500_000,
        "content-signal\n" + "user-agent: x\n" * 35_000,
        "content-signal\n" + "user" + "-" * 500_000,
        "content-signal\n" + " " * 500_000,
        "content-signal\n" + "d" + "i" * 500_000,
    ],
    ids=range(10),
)
def test_a_hostile_file_takes_little_time_and_gives_little(text: str) -> None:
    began = time.process_time()
    signal = read_content_signal(text[: 500 * 1024], AGENT)
    assert time.process_time() - began < 0.5
    assert len(signal) <= 20
    assert all(len(name) <= 40 for name in signal)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    signal = read_content_signal(f"User-agent: *\nContent-Signal: {text}", AGENT)
    assert set(signal.values()) <= {"yes", "no"}
