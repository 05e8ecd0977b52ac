"""Headers of defs: those that follow from the request are refused, and no problem shows a secret."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, Problem
from tests.unit.defs.language.test_strictness import marked

DEFS = """\
locatorGroups: {{g: {{locators: [{locator}]}}}}
taskGroups: {{g: {{page: {{dataDef: d}}}}}}
dataDefs: {{d: {{fields: {{f: {{selector: p}}}}}}}}
hosts: {{"shop.example": {host}}}
"""


def problems(folder: Path, locator: str = '{url: "http://h/"}', host: str = "{delay: 1}") -> list[Problem]:
    (folder / "crawl.yml").write_text(DEFS.format(locator=locator, host=host))
    with pytest.raises(DefsError) as caught:
        load(folder)
    return list(caught.value.problems)


@pytest.mark.parametrize("name", ["Host", "host", "Content-Length", "Transfer-Encoding", "connection", "TE", "Upgrade"])
def test_headers_that_follow_from_the_request_are_refused(name: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f'{{url: "http://h/", headers: {{A: b, {name}: x}}}}')
    assert (problem.line, problem.column, problem.code) == (1, 67, "fixed-header")
    assert f"`{name}` cannot be set" in problem.message
    (problem,) = problems(tmp_path, host=f"{{headers: {{{name}: x}}}}")
    assert (problem.line, problem.column, problem.code) == (4, 36, "fixed-header")


def test_a_cookie_may_have_the_name_of_such_a_header(tmp_path: Path) -> None:
    (tmp_path / "crawl.yml").write_text(DEFS.format(locator='{url: "http://h/", cookies: {host: x}}', host="{}"))
    assert load(tmp_path).definitions.locator_groups[0].locators[0].cookies == {"host": "x"}


@pytest.mark.parametrize(
    ("locator", "host"),
    [
        ('{url: "http://us:canary@[/"}', "{delay: 1}"),
        ('{url: "us:canary@h:80/"}', "{delay: 1}"),
        ('{url: "http://us:canary@h/{1..2"}', "{delay: 1}"),
        ('{url: "http://us:canary@h/{1..200001}"}', "{delay: 1}"),
        ('{url: "http://us:canary@h/{x}"}', "{delay: 1}"),
        ('{sitemap: "http://us:canary@[/"}', "{delay: 1}"),
        ('{url: "http://h/", headers: canary}', "{delay: 1}"),
        ('{url: "http://h/", headers: {X: [canary]}}', "{delay: 1}"),
        ('{url: "http://h/", cookies: {X: "canary\\n"}}', "{delay: 1}"),
        ('{url: "http://h/"}', "{cookies: canary, headers: {A: {canary: 1}}}"),
    ],
)
def test_no_problem_shows_a_secret(locator: str, host: str, tmp_path: Path) -> None:
    found = problems(tmp_path, locator, host)
    assert found
    assert "canary" not in " ".join(map(str, found))


OF_DATA_DEF = """\
locatorGroups: {g: {locators: [{url: "http://h/"}]}}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs:
  d:
    query: {block: li}
    fields: {f: {selector: p}, c: {value: "%{depth}"}}
    LINK
"""


@pytest.mark.parametrize(
    ("link", "code"),
    [
        ("links: [{selector: a, headers: §[a]}]", "wrong-type"),
        ("links: [{selector: a, headers: {§Host: x}}]", "fixed-header"),
        ("links: [{selector: a, headers: {§a b: x}}]", "bad-header"),
        ("links: [{selector: a, headers: {§A: ~}}]", "wrong-type"),
        ('links: [{selector: a, headers: {A: §"x\\ny"}}]', "bad-header"),
        ("links: [{selector: a, headers: {A: §'%{field.g}'}}]", "unknown-field"),
        ("links: [{selector: a, headers: {A: §'%{field.f}'}}]", "conflict"),
        ("links: [{selector: a, headers: {A: §'%{nope}'}}]", "unknown-variable"),
        ("next: {url: '/%{c}', c: a, headers: {A: §'%{nope}'}}", "unknown-variable"),
        ("next: {header: next, headers: {A: §'%{nope}'}}", "unknown-variable"),
        ("next: {header: next, headers: {§Host: a}}", "fixed-header"),
        ("next: {offset: 20, headers: {A: §'%{nope}'}}", "unknown-variable"),
        ("next: {offset: 20, headers: {§TE: a}}", "fixed-header"),
    ],
)
def test_headers_of_links_are_checked(tmp_path: Path, link: str, code: str) -> None:
    text, places = marked(OF_DATA_DEF.replace("LINK", link))
    (tmp_path / "crawl.yml").write_text(text)
    with pytest.raises(DefsError) as caught:
        load(tmp_path)
    [problem] = [one for one in caught.value.problems if not one.warning]
    assert (problem.code, (problem.line, problem.column)) == (code, places[0])


@pytest.mark.parametrize(
    ("link", "is_warned"),
    [
        ("links: [{selector: a, headers: {Authorization: Bearer abc}}]", True),
        ("links: [{selector: a, headers: {Authorization: 'Bearer %{env.KEY}'}}]", False),
        ("links: [{selector: a, inBlock: true, headers: {X-Token: '%{field.f}'}}]", False),
        ("links: [{selector: a, headers: {Accept: '*/*', Referer: '%{document.url}'}}]", False),
        ("next: {offset: 20, headers: {X-Api-Key: abc}}", True),
    ],
)
def test_literal_secrets_in_headers_of_links_are_a_warning(tmp_path: Path, link: str, *, is_warned: bool) -> None:
    (tmp_path / "crawl.yml").write_text(OF_DATA_DEF.replace("LINK", link))
    assert [one.code for one in load(tmp_path).warnings] == ["literal-secret"] * is_warned


@pytest.mark.parametrize("link", ["selector: a, headers: canary", "selector: a, headers: {X: [canary]}"])
def test_no_problem_of_a_link_shows_a_secret(tmp_path: Path, link: str) -> None:
    (tmp_path / "crawl.yml").write_text(OF_DATA_DEF.replace("LINK", f"links: [{{{link}}}]"))
    with pytest.raises(DefsError) as caught:
        load(tmp_path)
    assert "canary" not in str(caught.value)
