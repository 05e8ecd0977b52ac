"""One URL in several locators: `check` warns where their cookies or headers do not reach the pages behind it."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError

DEFS = """\
baseUrl: http://h/
locatorGroups: {{g: {{locators: [{first}, {second}]}}}}
taskGroups: {{g: {{page: {{dataDef: d}}}}}}
dataDefs: {{d: {{query: {{block: p}}, fields: {{f: {{selector: p}}}}, {lead}}}}}
"""
LINKS = "links: [{selector: a}]"


def warnings(folder: Path, first: str, second: str, lead: str = LINKS) -> list[str]:
    locators = [f"{{{keys}}}" for keys in (first, second)]
    (folder / "crawl.yml").write_text(DEFS.format(first=locators[0], second=locators[1], lead=lead))
    return [one.message for one in load(folder).warnings if one.code == "shared-url"]


def north(more: str = "cookies: {s: n}") -> str:
    return f"name: n, url: /l, {more}"


@pytest.mark.parametrize("lead", [LINKS, "next: {page: 1}"])
def test_other_cookies_are_a_warning_where_pages_lead_on(tmp_path: Path, lead: str) -> None:
    (message,) = warnings(tmp_path, north(), "name: s, url: /l, cookies: {s: s}", lead)
    assert "crawl.yml:2:47 asks for this URL with other cookies, and the pages that it leads to" in message
    assert message.endswith("write `cookieScope: group` in both")


def test_other_headers_are_a_warning(tmp_path: Path) -> None:
    (message,) = warnings(tmp_path, north("headers: {A: b}"), "name: s, url: /l")
    assert "with other headers" in message
    assert message.endswith("name those in `links`")


@pytest.mark.parametrize(
    ("first", "second", "lead"),
    [
        (north(), "name: s, url: /l, cookies: {s: n}", LINKS),
        (north(), "name: s, url: /m, cookies: {s: s}", LINKS),
        (north("cookies: {s: n}, cookieScope: group"), "name: s, url: /l, cookies: {s: s}, cookieScope: group", LINKS),
        (north(), "name: s, url: /l, cookies: {s: s}", "links: [{selector: a, headers: {Cookie: x}}]"),
        (north(), "name: s, url: /l, cookies: {s: s}", ""),
        (north("form: {a: b}, cookies: {s: n}"), "name: s, url: /l, form: {a: c}, cookies: {s: s}", LINKS),
    ],
    ids=["same", "other URL", "in both", "own headers", "no links", "other bodies"],
)
def test_what_tells_them_apart_is_no_warning(tmp_path: Path, first: str, second: str, lead: str) -> None:
    assert warnings(tmp_path, first, second, lead) == []


def test_two_locators_of_one_name_are_one_page(tmp_path: Path) -> None:
    (message,) = warnings(tmp_path, "url: /l, cookies: {s: n}", "url: /l, cookies: {s: s}", "")
    assert "has the same name, so that it is asked for once" in message
    scoped = "url: /l, cookies: {{s: {}}}, cookieScope: group"
    assert warnings(tmp_path, scoped.format("n"), scoped.format("s"), "") == []


def test_a_scope_without_cookies_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(DefsError) as caught:
        warnings(tmp_path, "name: n, url: /l, cookieScope: group", "url: /m")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.code) == (2, 51, "missing-key")
