"""robots.txt: statuses, groups by product token, limits, and the line that disallows a URL."""

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from crawl_engine.model.host import product_token
from crawl_engine.robots.rules import RobotsRules, parse_robots

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


def allows(rules: RobotsRules, url: str) -> bool:
    return rules.disallowing_rule(url) is None


def test_robots_as_written() -> None:
    rules = RobotsRules(ROBOTS, AGENT)
    assert not allows(rules, "https://h/only-us/x")
    assert allows(rules, "https://h/private/x")
    assert rules.crawl_delay == 0
    other = RobotsRules(ROBOTS, "other")
    assert not allows(other, "https://h/private/x")
    assert allows(other, "https://h/private/open")
    assert not allows(other, "https://h/a.pdf") and allows(other, "https://h/a.pdf?x")
    assert other.crawl_delay == 2.5


@pytest.mark.parametrize(
    ("status", "allowed"),
    [(200, False), (204, False), (301, True), (403, True), (404, True), (500, False), (503, False), (0, False),
     (408, False), (425, False), (429, False)],
)  # fmt: skip
def test_robots_by_status(status: int, allowed: bool) -> None:
    robots = parse_robots(status, "User-agent: *\nDisallow: /\nCrawl-delay: 2", AGENT)
    assert (robots.refusal("https://h/a") is None) is allowed
    assert robots.delay == (2 if status in (200, 204) else 0)


def test_robots_without_rules() -> None:
    for text in ("", "<html>not found</html>", "\ufeffUser-agent: *\nDisallow:", "Disallow: /", "\0\x1b[31m"):
        assert allows(RobotsRules(text, AGENT), "https://h/a")
    assert not allows(RobotsRules("\ufeffUser-agent: *\nDisallow: /", AGENT), "https://h/a")


def test_only_cr_and_lf_end_a_line() -> None:
    for end in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        text = f"User-agent: *\nDisallow: /a\n# see{end}Allow: /a\r\nDisallow: /b\rDisallow: /c"
        rules = RobotsRules(text, AGENT)
        assert [allows(rules, f"https://h/{path}") for path in "abcd"] == [False, False, False, True]
        assert rules.disallowing_rule("https://h/c") == "line 5: Disallow: /c"
        assert not allows(RobotsRules(f"User-agent: *\nDisallow: /x{end}y", AGENT), f"https://h/x{quote(end)}y")


@given(st.text(max_size=200), st.text(max_size=30).map("https://h/".__add__))
def test_any_robots_text_is_parsed(text: str, url: str) -> None:
    rules = RobotsRules("User-agent: *\n" + text, AGENT)
    assert rules.disallowing_rule(url) is None or isinstance(rules.disallowing_rule(url), str)
    assert rules.crawl_delay >= 0


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
    rules = RobotsRules(f"User-agent: *\nDisallow: /all\n\n{lines}\nDisallow: /us\n", token)
    assert allows(rules, "http://h/us") is not applies
    assert allows(rules, "http://h/all") is applies, "our own group replaces that of all"


def test_groups_of_one_name_are_one() -> None:
    text = "User-agent: crawl-console/1\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\nUser-agent: Crawl-Console\n"
    rules = RobotsRules(text + "Disallow: /b\nCrawl-delay: 3\n", AGENT)
    assert [allows(rules, f"http://h/{path}") for path in "abc"] == [False, False, True]
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
    rules = RobotsRules(f"User-agent: *\n{lines}Disallow: /b\n", AGENT)
    assert rules.disallowing_rule("http://h/b") == "line 15002: Disallow: /b"
    began = time.process_time()
    assert rules.disallowing_rule("http://h/b" + "/x" * 500) == "line 15002: Disallow: /b"
    assert time.process_time() - began < 1


def test_many_agents_with_many_rules_are_read_in_linear_time() -> None:
    agents = "".join(f"User-agent: a{number}\n" for number in range(16_000))
    rules = "".join(f"Allow: /a{number}\n" for number in range(16_000))
    began = time.process_time()
    assert allows(RobotsRules(agents + "User-agent: *\n" + rules + "Disallow: /b\n", "acme"), "http://h.example/")
    assert time.process_time() - began < 3  # each rule for each agent: minutes


@pytest.mark.parametrize("record", ["Content-Signal: search=yes", "Noindex: /x", "X: y", "# comment", "", "some words"])
def test_records_of_other_protocols_do_not_end_the_agents_of_a_group(record: str) -> None:
    rules = RobotsRules(f"User-agent: acme\n{record}\nUser-agent: foo\nDisallow: /no\n", "acme")
    assert allows(rules, "http://h/yes")
    assert rules.disallowing_rule("http://h/no") == "line 4: Disallow: /no"


def test_the_longest_rule_of_the_group_is_named() -> None:
    text = "User-agent: b\nDisallow: /a/b/c\n\nUser-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\n"
    assert RobotsRules(text, AGENT).disallowing_rule("http://h/a/b/c/d") == "line 7: Disallow: /a/b/c"
    assert RobotsRules(text, AGENT).disallowing_rule("http://h/a/c") == "line 5: Disallow: /a"


def test_robots_txt_itself_is_allowed() -> None:
    rules = RobotsRules("User-agent: *\nDisallow: /\n", AGENT)
    assert allows(rules, "http://h/robots.txt?x")
    assert not allows(rules, "http://h/x?/robots.txt")


# Protego decides.

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
def test_each_refusal_names_a_line_that_disallows_the_url(lines: list[str], newline: str) -> None:
    rules = RobotsRules(newline.join(lines), AGENT)
    for url in _URLS:
        named = rules.disallowing_rule(url)
        if named is not None:
            number, written = named.removeprefix("line ").split(": ", 1)
            assert lines[int(number) - 1].strip() == written
            assert not Protego.parse(f"User-agent: *\n{written}").can_fetch(url, "*"), (url, named)


_KNOWN = st.lists(_LINES.filter(lambda line: "index" not in line and line.strip() not in ("x 1", "1")), max_size=14)


@given(_KNOWN)
def test_protego_decides_where_a_group_has_exactly_our_name(lines: list[str]) -> None:
    text = "\n".join(["User-agent: crawl-console", "Disallow: /a/b", *lines])
    parsed, rules = Protego.parse(text), RobotsRules(text, AGENT)
    assert [allows(rules, url) for url in _URLS] == [parsed.can_fetch(url, AGENT) for url in _URLS]
    assert rules.crawl_delay == (parsed.crawl_delay(AGENT) or 0)
