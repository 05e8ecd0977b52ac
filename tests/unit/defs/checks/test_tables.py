"""`query.table` and `column`: what each contradicts, with its place; what is made of them."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from tests.unit.defs.language.test_strictness import load_problems, marked, write_defs

DEFS = """\
locatorGroups: {list: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {list: {items: {dataDef: item}}}
dataDefs:
  item:
    query: QUERY
    fields:
      f: FIELD
"""


@pytest.mark.parametrize(
    ("code", "query", "field", "advice"),
    [
        ("conflict", "{table: table, §block: li}", "{column: A}", "keep one"),
        ("missing-key", "{block: li, §header: first}", "{}", "needs `table`"),
        ("unknown-value", "{table: table, header: §last}", "{column: A}", ""),
        ("bad-selector", "{table: §'p['}", "{column: A}", "not a CSS selector"),
        ("bad-selector", "{table: §'jmespath: a'}", "{column: A}", "CSS or `xpath:`"),
        ("bad-selector", "{block: §'table: .prices'}", "{}", "write `query: {table: …}`"),
        ("missing-key", "{block: table}", "{§column: A}", "needs `query.table`"),
        ("empty-text", "{table: table}", "{column: §''}", ""),
        ("conflict", "{table: table}", "{§column: A, value: x}", "keep one"),
        ("conflict", "{table: table}", "{§column: A, scope: page, selector: h1}", "keep one"),
        ("conflict", "{table: table}", "{§column: A, fromStep: true}", "keep one"),
        ("conflict", "{table: table}", "{column: A, selector: li, fields: {x: {§column: B}}}", "on the outer field"),
        ("conflict", "{table: table}", "{column: A, §selector: 'jmespath: a'}", "reads JSON"),
    ],
)
def test_a_wrong_key_has_its_place(tmp_path: Path, code: str, query: str, field: str, advice: str) -> None:
    text, places = marked(DEFS.replace("QUERY", query).replace("FIELD", field))
    problems = [p for p in load_problems(write_defs(tmp_path, text)) if not p.warning]
    problem = next(p for p in problems if p.code == code)
    assert (problem.line, problem.column) == places[0], problems
    assert advice in problem.message


def test_a_table_of_axes_has_no_table_of_rows(tmp_path: Path) -> None:
    axes = """\
locatorGroups: {list: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {list: {items: {dataDef: item}}}
dataDefs:
  item:
    query: {§table: table, selector: td}
    items: [{item: {name: a, value: b}}]
"""
    text, places = marked(axes)
    (problem,) = load_problems(write_defs(tmp_path, text))
    assert (problem.code, problem.line, problem.column) == ("conflict", *places[0])


@pytest.mark.parametrize(
    ("query", "block"),
    [
        ("{table: .prices}", "table: .prices"),
        ("{table: ' .prices ', header: rows}", "table: .prices"),
        ("{table: 'xpath: //table', header: first}", "table(first): xpath: //table"),
    ],
)
def test_a_table_is_a_kind_of_block(tmp_path: Path, query: str, block: str) -> None:
    text = DEFS.replace("QUERY", query).replace("FIELD", "{column: ' 2023 / H1', type: price}")
    text += "    links: [{selector: a, inBlock: true}]\n    next: {url: '/?page=%{page}', page: .next, until: empty}\n"
    loaded = load(write_defs(tmp_path, text))
    assert loaded.warnings == ()
    data_def = loaded.definitions.data_def("item")
    assert data_def is not None
    assert data_def.block == block
    assert data_def.fields[0].column == " 2023 / H1"
