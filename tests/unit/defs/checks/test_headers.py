"""Headers of defs: those that follow from the request are refused, and no problem shows a secret."""

from pathlib import Path

import pytest

from engine.defs.loader import load
from engine.errors import DefsError, Problem

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
