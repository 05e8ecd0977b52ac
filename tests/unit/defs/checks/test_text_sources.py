"""Checks of documents inside pages: `from`, `match`, `as`, and selectors that can match nothing in them."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError

HEAD = """\
baseUrl: http://shop.example/
locatorGroups: {g: {locators: [{url: /}]}}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs:
  d:
"""


def problems(tmp_path: Path, query: str, rest: str = "fields: {x: {selector: a}}") -> list[str]:
    (tmp_path / "d.yml").write_text(f"{HEAD}    query: {query}\n    {rest}\n", "utf-8")
    try:
        load(tmp_path / "d.yml")
    except DefsError as error:
        return [str(problem).removeprefix("d.yml:") for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('{from: "div[", as: html}', "6:19: bad-selector `from`: not a CSS selector: div[; it breaks off at its end"),
        ('{match: "(", as: html}', "6:20: bad-pattern `match`: not a regular expression: missing ) at character 2"),
        ("{from: a, as: htm}", "6:26: unknown-value `as` cannot be the text 'htm' (did you mean 'html'?)"),
        ("{from: a}", "6:13: missing-key `from` needs `as`, which says how its text is read"),
        ('{from: "comment(a", as: html}', "6:19: bad-selector `from`: write `comment(CSS)`, such as `comment(#stats)`"),
        ('{from: "comment(a[)", as: html}', "6:19: bad-selector `from`: not a CSS selector: a[; it breaks off"),
        ('{from: "header: a b", as: html}', "6:19: bad-selector `from`: write the name of a header behind `header:`"),
        ('{from: "capture: a b", as: json}', "6:19: bad-selector `from`: write the name of a `capture` of the browser"),
        ('{from: "capture: a", as: json}', "6:19: unknown-capture the loader of 'g' captures no 'a'; write `capture: "),
        (
            '{from: a, as: html, query: {from: "capture: a", as: json}}',
            "6:40: conflict captured answers belong to the page; write `from` in the outer query",
        ),
        ("{as: json, block: li}", "6:23: conflict `block`: the documents are JSON, which has no elements"),
        ("{as: nextjs, match: x}", "6:25: conflict `match` has no effect with `as: nextjs`, which reads all texts"),
        ("{block: a, query: {as: html, from: b}}", "6:13: conflict `block` belongs into the inner `query`"),
        ("{query: {as: html, from: b}}", "6:13: missing-key a `query` inside a query searches the documents"),
        (
            "{as: html, query: {as: html, from: b, query: {as: html, from: b, query: {as: html, from: b}}}}",
            "6:50: too-deep documents inside documents can nest at most 2 levels",
        ),
    ],
)
def test_each_problem_names_its_place_and_its_cure(tmp_path: Path, query: str, expected: str) -> None:
    found = problems(tmp_path, query)
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    ("query", "rest", "expected"),
    [
        ("{as: js}", "fields: {x: {selector: a}}", "7:18: conflict `selector`: the documents are JSON"),
        (
            "{as: html}",
            'fields: {x: {selector: "jmespath: a"}}',
            "7:18: conflict `selector`: the documents have",
        ),
        (
            "{}",
            "fields: {x: {selector: a, scope: from}}",
            "7:31: conflict `scope: from` reads a document",
        ),
        ("{block: a}", "links: [{selector: a, from: b}]", "7:27: missing-key `from` needs `as`"),
        (
            "{block: a}",
            "links: [{selector: a, as: html, inBlock: true}]",
            "7:37: conflict `inBlock` searches",
        ),
    ],
)
def test_fields_and_links(tmp_path: Path, query: str, rest: str, expected: str) -> None:
    found = problems(tmp_path, query, rest)
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        (
            "{as: js, block: 'jmespath: a'}",
            "fields: {x: {selector: a, scope: page}, y: {selector: 'jmespath: b', scope: from}}",
        ),
        ("{as: html}", "fields: {x: {selector: a}}"),
        (
            "{as: html, from: 'header: X-Y'}",
            "links: [{selector: a, inBlock: true}]\n    fields: {x: {selector: a}}",
        ),
        ("{from: p, as: html, query: {from: comment(b), as: html, table: table}}", "fields: {x: {column: a}}"),
    ],
)
def test_valid_queries(tmp_path: Path, query: str, rest: str) -> None:
    assert problems(tmp_path, query, rest) == []
