"""robots.txt: statuses, groups by product token, limits, and the line that disallows a URL."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from engine.fetch.robots import LARGE_TEXT, RobotsRules, product_token, robots_rules_for
from engine.fetch.robots_groups import read_rules
from engine.fetch.robots_reader import parse_robots
from engine.fetch.rule_table import RuleTable

ROBOTS = """\
# first
User-agent: *
Disallow: /private/   # not yours
Allow: /private/open
Disallow: /*.pdf$
Crawl-delay: 2.5

User-agent: Crawl-Console
Disallow: /only-us
Sitemap: https://h/sitemap.xml
"""
AGENT = "crawl-console"


def test_robots_as_written() -> None:
    rules = robots_rules_for(200, ROBOTS, AGENT)
    assert rules.sitemaps == ("https://h/sitemap.xml",)
    assert not rules.allowed("https://h/only-us/x")
    assert rules.allowed("https://h/private/x")
    assert rules.crawl_delay is None
    other = robots_rules_for(200, ROBOTS, "other")
    assert not other.allowed("https://h/private/x")
    assert other.allowed("https://h/private/open")
    assert not other.allowed("https://h/a.pdf") and other.allowed("https://h/a.pdf?x")
    assert other.crawl_delay == 2.5


@pytest.mark.parametrize(
    ("status", "allowed"),
    [(200, False), (204, False), (301, True), (403, True), (404, True), (500, False), (503, False), (0, False),
     (408, False), (425, False), (429, False)],
)  # fmt: skip
def test_robots_by_status(status: int, allowed: bool) -> None:
    rules = robots_rules_for(status, "User-agent: *\nDisallow: /", AGENT)
    assert rules.allowed("https://h/a") is allowed
    if status != 200 and status != 204:
        assert (rules.crawl_delay, rules.sitemaps) == (None, ())


def test_robots_without_rules() -> None:
    for text in ("", "<html>not found</html>", "\ufeffUser-agent: *\nDisallow:", "Disallow: /", "\0\x1b[31m"):
        assert RobotsRules.parse(text, AGENT).allowed("https://h/a")
    assert not RobotsRules.parse("\ufeffUser-agent: *\nDisallow: /", AGENT).allowed("https://h/a")


def test_only_cr_and_lf_end_a_line() -> None:
    for end in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        text = f"User-agent: *\nDisallow: /a\n# see{end}Allow: /a\r\nDisallow: /b\rDisallow: /c"
        rules = RobotsRules.parse(text, AGENT)
        assert [rules.allowed(f"https://h/{path}") for path in "abcd"] == [False, False, False, True]
        assert rules.disallowing_rule("https://h/c") == "line 5: Disallow: /c"
        assert not RobotsRules.parse(f"User-agent: *\nDisallow: /x{end}y", AGENT).allowed(f"https://h/x{quote(end)}y")


@given(st.text(max_size=200), st.text(max_size=30).map("https://h/".__add__))
def test_any_robots_text_is_parsed(text: str, url: str) -> None:
    rules = RobotsRules.parse("User-agent: *\n" + text, AGENT)
    assert rules.allowed(url) in (True, False)
    assert isinstance(rules.disallowing_rule(url), str)
    assert rules.crawl_delay is None or rules.crawl_delay >= 0


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("crawl-console/0.1.0", "crawl-console"),
        ("crawl-console/0.1.0 (+https://project.example/bot)", "crawl-console"),
        ("acme-prices/1.0 (+https://acme.example/bot)", "acme-prices"),
        ("Acme_Prices", "acme_prices"),
        ("Mozilla/5.0 (compatible; AcmeBot/2.1; +http://acme.example/)", "acmebot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("", ""),
    ],
)
def test_the_product_token_of_a_header(header: str, token: str) -> None:
    assert product_token(header) == token


@pytest.mark.parametrize(
    ("agents", "applies"),
    [
        (["crawl-console"], True),
        (["CRAWL-Console"], True),
        (["other", "crawl-console"], True),
        (["crawl-console/0.1 (any version)"], True),
        (["crawl"], False),
        (["console"], False),
        (["crawl-console-images"], False),
        (["bot"], False),
        (["https"], False),
        (["project"], False),
    ],
)
def test_a_group_applies_to_exactly_our_token(agents: list[str], applies: bool) -> None:
    lines = "\n".join(f"User-agent: {agent}" for agent in agents)
    token = product_token("crawl-console/0.1.0 (+https://project.example/bot)")
    rules = RobotsRules.parse(f"User-agent: *\nDisallow: /all\n\n{lines}\nDisallow: /us\n", token)
    assert rules.allowed("http://h/us") is not applies
    assert rules.allowed("http://h/all") is applies, "our own group replaces that of all"


def test_groups_of_one_name_are_one() -> None:
    text = "User-agent: crawl-console/1\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: Crawl-Console\n"
    rules = RobotsRules.parse(text + "Disallow: /b\nCrawl-delay: 3\n", AGENT)
    assert [rules.allowed(f"http://h/{path}") for path in "abc"] == [False, False, True]
    assert rules.crawl_delay == 3


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://h/private/x", "line 3: Disallow: /private/"),
        ("http://h/x.pdf", "line 5: Disallow: /*.pdf$"),
        ("http://h/private/open", ""),
        ("http://h/else", ""),
    ],
)
def test_a_refusal_names_the_line_of_the_rule(url: str, rule: str) -> None:
    robots = parse_robots(200, ROBOTS, "other")
    assert robots.refusal(url) == (f"robots.txt disallows it ({rule})" if rule else None)


def test_a_line_is_shown_in_a_readable_form() -> None:
    text = f"User-agent: *\r\nDisallow: /a\x1b[31m{'b' * 500}\r\nDisallow: /a\r\n"
    assert parse_robots(200, text, AGENT).refusal("http://h/a") == "robots.txt disallows it (line 3: Disallow: /a)"
    refusal = parse_robots(200, text, AGENT).refusal("http://h/a%1b[31m" + "b" * 500)
    assert refusal is not None
    assert refusal.isprintable()
    assert len(refusal) < 160


@pytest.mark.parametrize(
    ("status", "problem", "refusal"),
    [
        (0, "connection refused (4 attempts)", "robots.txt cannot be read: connection refused (4 attempts)"),
        (503, "HTTP 503 (4 attempts)", "robots.txt answered 503 (4 attempts)"),
    ],
)
def test_an_unreadable_robots_txt_is_named_as_the_reason(status: int, problem: str, refusal: str) -> None:
    robots = parse_robots(status, problem, AGENT)
    assert not robots.readable
    assert robots.refusal("http://h/a") == refusal


def test_a_large_file_is_searched_in_time() -> None:

    lines = "".join(f"Disallow: /dir{n}/*/x{n}$\n" for n in range(15_000))
    rules = RobotsRules.parse(f"User-agent: *\n{lines}Disallow: /b\n", AGENT)
    started_at = time.perf_counter()
    assert rules.disallowing_rule("http://h/b" + "/x" * 500) == "line 15002: Disallow: /b"
    assert time.perf_counter() - started_at < 1


# Agreement with protego, which decides.

_NAMES = ["*", "crawl-console", "Crawl-Console", "other", "crawl", "cr*wl"]
_PATHS = ["/", "/a", "/a/b", "/a*", "/*b", "/a$", "/*.x$", "/%61", "/%2Fa", "/ü", "/%C3%BC", "/a?q=1", "/a*b*c$", "*",
          "/a$b", "/a/index.html", "/=%3D", "", "http://h/a", "a", "/%zz", "/%2a", "/~%7E"]  # fmt: skip
_LINES = st.one_of(
    st.tuples(st.sampled_from(["User-agent:", "user agent", "Useragent :"]), st.sampled_from(_NAMES)),
    st.tuples(st.sampled_from(["Allow:", "Disallow:", "disallow", "Dissallow :", "ALLOW"]), st.sampled_from(_PATHS)),
    st.tuples(st.sampled_from(["Crawl-delay:", "Sitemap:", "Host:", "Noindex:", "x", "#", ""]), st.just("1")),
).map(" ".join)
_URLS = [f"http://h{path}" for path in ("", "/", "/a", "/a/b", "/ab", "/a.x", "/ü", "/%C3%BC", "/%2fa", "/a?q=1",
         "/axbxc", "/a$", "/a/", "/a/index.html", "/==", "/%zz", "/*", "/~", "/a$b", "//a", "/robots", "/a#b",
         )]  # fmt: skip


@given(st.lists(_LINES, max_size=14), st.sampled_from(["\n", "\r\n"]))
def test_the_finder_agrees_with_the_parser(lines: list[str], newline: str) -> None:
    text = newline.join(lines)
    rules = RobotsRules.parse(text, AGENT)
    for url in _URLS:
        allowed = rules.allowed(url)
        named = rules.disallowing_rule(url)
        assert bool(named) is not allowed, (url, named)
        if named:
            number, written = named.removeprefix("line ").split(": ", 1)
            assert lines[int(number) - 1].strip() == written


@given(st.lists(_LINES, max_size=14))
def test_a_large_file_says_the_same_as_a_small_one(lines: list[str]) -> None:
    text = "\n".join(lines)
    small, large = RobotsRules.parse(text, AGENT), RobotsRules.parse(f"{text}\n{'#' * LARGE_TEXT}", AGENT)
    assert [large.allowed(url) for url in _URLS] == [small.allowed(url) for url in _URLS]
    assert [large.disallowing_rule(url) for url in _URLS] == [small.disallowing_rule(url) for url in _URLS]
    assert (large.crawl_delay, large.sitemaps) == (small.crawl_delay, small.sitemaps)


@pytest.mark.parametrize(
    ("rules", "length", "costly"),
    [(20, 60, False), (10, 60_000, False), (500, 60, False), (500, 7_000, True), (30, 60_000, True), (5_000, 60, True)],
)
def test_many_rules_or_a_long_url_make_a_search_costly(rules: int, length: int, costly: bool) -> None:
    text = "User-agent: *\n" + "\n".join(f"Disallow: /*{number}x$" for number in range(rules))
    url = "http://h/" + "1" * length
    parsed = RobotsRules.parse(text, AGENT)
    assert parsed.is_costly(url) is costly
    assert all(rule is None for rule in parsed.search(url)) is parsed.allowed(url) is True
    disallowed = f"{url}7x"
    *others, rule = parsed.search(disallowed)
    assert rule is not None and set(others) <= {None} and not parsed.allowed(disallowed)


def test_robots_txt_itself_is_allowed_by_a_large_file_too() -> None:
    rules = RobotsRules.parse(f"User-agent: *\nDisallow: /\n{'#' * LARGE_TEXT}", AGENT)
    assert rules.allowed("http://h/robots.txt?x")
    assert not rules.allowed("http://h/x?/robots.txt")


def _protego_tests(folder: Path) -> Path:
    """The source distribution of the installed protego, unpacked; skips where it cannot be downloaded."""
    version = importlib.metadata.version("protego")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "protego",
               "-q", "-d", str(folder), f"protego=={version}"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"protego's source distribution cannot be downloaded: {result.stderr.strip()[-200:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    found = sorted(folder.glob("*/tests/test_protego.py"))
    if not found:
        pytest.skip("protego's source distribution has no tests")
    return found[0]


@pytest.mark.sweep
def test_the_finder_agrees_with_the_parser_on_its_own_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run protego's tests; whenever they ask for a verdict, ask the finder too."""
    path = _protego_tests(tmp_path)
    texts: dict[int, str] = {}
    asked: Counter[bool] = Counter()
    parse, can_fetch = Protego.parse.__func__, Protego.can_fetch  # type: ignore[attr-defined]

    def parse_recorded(cls: Any, content: str) -> Any:
        parsed = parse(cls, content)
        texts[id(parsed)] = content
        kept.append(parsed)
        return parsed

    def can_fetch_compared(self: Any, url: str, user_agent: str) -> bool:
        allowed = bool(can_fetch(self, url, user_agent))
        group = self._get_matching_rule_set(user_agent)
        if group is not None and "/robots.txt" not in url:
            rule = RuleTable(read_rules(texts[id(self)], group.user_agent)).find(url)
            assert (rule is None or rule.allows) is allowed, (texts[id(self)], url, rule)
            asked[allowed] += 1
        return allowed

    kept: list[Any] = []
    monkeypatch.setattr(Protego, "parse", classmethod(parse_recorded))
    monkeypatch.setattr(Protego, "can_fetch", can_fetch_compared)
    spec = importlib.util.spec_from_file_location("protego_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(path.parent))
    spec.loader.exec_module(module)
    for name, member in vars(module).items():
        if name.startswith("Test") and isinstance(member, type):
            for method in [m for m in dir(member) if m.startswith("test")]:
                case: Any = member(method) if hasattr(member, "run") else member()
                if hasattr(case, "setUp"):
                    case.setUp()
                try:
                    getattr(case, method)()
                except TypeError:  # it needs a fixture
                    continue
        elif name.startswith("test") and callable(member) and not getattr(member, "pytestmark", None):
            try:
                member()
            except TypeError:
                continue
    assert asked[True] > 50
    assert asked[False] > 50
    for robots in sorted(path.parent.glob("test_data/*"))[::7]:  # the files of real sites
        text = robots.read_text("utf-8", "replace")
        rules = RobotsRules.parse(text, AGENT)
        agents = [name.lower() for name in re.findall(r"(?im)^\s*user-agent\s*:\s*([^\s#]+)", text)]
        every_rule = [rule for name in dict.fromkeys(agents) for rule in read_rules(text, name)]
        for pattern in list(dict.fromkeys(rule.pattern for rule in every_rule))[:40]:
            url = "http://h" + pattern.replace("*", "x").rstrip("$")
            if url != "http://h/robots.txt":  # which is allowed by whatever rule
                assert bool(rules.disallowing_rule(url)) is not rules.allowed(url), (robots.name, url)
