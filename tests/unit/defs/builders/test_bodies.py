"""Ranges and lists in the bodies of locators: what they expand to, and which are refused where."""

import json
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.defs.builders.bodies import encode_body, expand_body
from crawl_engine.defs.language.keys import WrittenLocator
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions
from crawl_engine.model.locator import Locator
from crawl_engine.model.variables import render_secrets

DEFS = """\
locatorGroups: {g: {locators: [%s]}}
taskGroups: {g: {page: {dataDef: page}}}
dataDefs: {page: {fields: {title: {selector: h1}}}}
"""


def load_locator(folder: Path, written: str) -> Locator:
    (folder / "shop.yml").write_text(DEFS % written, "utf-8")
    return load(folder / "shop.yml").definitions.locator_groups[0].locators[0]


def bodies_of(folder: Path, written: str) -> list[str]:
    locator = load_locator(folder, "{url: /s, " + written + "}")
    return list(expand_body(locator.body_pieces, locator.content_type)) if locator.body_pieces else [locator.body or ""]


@pytest.mark.parametrize(
    ("written", "bodies"),
    [
        ('form: {q: "{tea,milk}", n: "{1..2}"}', ["q=tea&n=1", "q=tea&n=2", "q=milk&n=1", "q=milk&n=2"]),
        ('form: {q: "a {1..2} b"}', ["q=a+1+b", "q=a+2+b"]),
        ('form: {q: "{a b,c&d}"}', ["q=a+b", "q=c%26d"]),
        ("form: {q: '\\{x\\}'}", ["q=%7Bx%7D"]),
        ("form: {q: '{a\\,b,c}'}", ["q=a%2Cb", "q=c"]),
        ('form: {q: ["{08..09}", z]}', ["q=08&q=z", "q=09&q=z"]),
        ('form: {q: "%{env.T}{1..2}"}', ["q=%{env.T}1", "q=%{env.T}2"]),
        ('form: {q: "%%{1}{1..2}"}', ["q=%25%7B1%7D1", "q=%25%7B1%7D2"]),
        ('form: {"{1..2}": x}', ["%7B1..2%7D=x"]),
        ('json: {q: "{tea,co\\"ffee}", n: 1, t: true, l: ["{1..2}", 2.50]}', [
            '{"q":"tea","n":1,"t":true,"l":["1",2.5]}', '{"q":"tea","n":1,"t":true,"l":["2",2.5]}',
            '{"q":"co\\"ffee","n":1,"t":true,"l":["1",2.5]}', '{"q":"co\\"ffee","n":1,"t":true,"l":["2",2.5]}',
        ]),
        ('json: "{a,b}"', ['"a"', '"b"']),
        ("json: {q: 'x\\{y\\}'}", ['{"q":"x{y}"}']),
        ("json: {q: '%\\{env.T\\}'}", ['{"q":"%%{env.T}"}']),
        ("json: {q: '{a\\{b,c\\d}'}", ['{"q":"a{b"}', '{"q":"c\\\\d"}']),
        ('body: "{a,b}"', ["{a,b}"]),
        ('json: {query: "{ shop(first: 2) { id, name } }"}', ['{"query":"{ shop(first: 2) { id, name } }"}']),
        ('json: {query: "{ id, name }", n: "{1..2}"}', [
            '{"query":"{ id, name }","n":"1"}', '{"query":"{ id, name }","n":"2"}',
        ]),
        ('json: {v: {page: "{1..3}"}, s: "{1..2}"}, numbers: [page]', [
            f'{{"v":{{"page":{page}}},"s":"{size}"}}' for page in (1, 2, 3) for size in (1, 2)
        ]),
        ('json: {ids: ["{1,-2.5e3}", "7", x: {}], n: " 4 "}, numbers: [ids, n]'.replace(", x: {}", ""), [
            '{"ids":[1,7],"n":4}', '{"ids":[-2.5e3,7],"n":4}',
        ]),
        ('json: "{name}"', ['"{name}"']), ('json: "{{1..2}}"', ['"{{1..2}}"']),
    ],
)  # fmt: skip
def test_texts_expand_and_other_values_stay(tmp_path: Path, written: str, bodies: list[str]) -> None:
    assert bodies_of(tmp_path, written) == bodies


@pytest.mark.parametrize(
    "value", [{}, [], {"a": {}, "b": [[], [1, None]]}, {"ä": 'é\n"\\', "%{env.X}": False}, None, 7, "x%"]
)
def test_json_without_braces_is_that_of_the_library(value: Any) -> None:
    (text,), _ = encode_body(WrittenLocator(json=value))
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_a_literal_brace_behind_a_percent_sign_is_no_variable(tmp_path: Path) -> None:
    (body,) = bodies_of(tmp_path, "json: {q: '%\\{env.T\\}'}")
    assert json.loads(render_secrets(body, {"T": "secret"})) == {"q": "%{env.T}"}


def test_the_stored_form_holds_the_pattern_and_no_combination(tmp_path: Path) -> None:
    locator = load_locator(tmp_path, '{url: /s, form: {page: "{1..100000}", key: "%{env.KEY}"}}')
    assert locator.method == "POST"
    assert locator.body == "page={1..100000}&key=%{env.KEY}"
    assert locator.body_pieces == ("page=", "{1..100000}", "&key=%{env.KEY}")
    text = load(tmp_path / "shop.yml").definitions.to_json()
    assert Definitions.from_json(text).locator_groups[0].locators[0] == locator
    plain = load_locator(tmp_path, "{url: /s, form: {page: 1}}")
    assert plain.body_pieces == ()


PROBLEMS = [
    ('{url: /s, form: {q: §"{a"}}', "bad-range", "unclosed brace"),
    ('{url: /s, form: {q: [x, §"{secret}"]}}', "bad-range", "neither a range nor a list"),
    ('{url: /s, §form: {q: "{1..100001}"}}', "bad-range", "expands to 100,001 requests"),
    ('{url: "/s{1..11}", §form: {q: "{1..100}", p: "{1..100}"}}', "bad-range", "expands to 110,000 requests"),
    ('{urls: ["/s{1..6}", "/t{1..5}"], §json: {q: "{1..10000}"}}', "bad-range", "expands to 110,000 requests"),
    ('{sitemap: /s.xml, §form: {q: "{1..2}"}}', "conflict", "cannot stand beside `sitemap`"),
    ('{url: /s, form: §[a]}', "wrong-type", "must be a mapping"),
    ('{url: /s, form: {q: §{a: b}}}', "wrong-type", "must be a text"),
    ('{url: /s, numbers: [n], json: {n: §"{01..12}"}}', "bad-number", "'01' is none as JSON writes it"),
    ('{url: /s, numbers: [n], json: {n: §"p{1..2}"}}', "bad-number", "write a number, a range, a list of numbers"),
    ('{url: /s, numbers: [n], json: {n: §"{1..2}{1..2}"}}', "bad-number", "write a number"),
    ('{url: /s, numbers: [n], json: {n: [1, §"{1,a}"]}}', "bad-number", "'a' is none"),
    ('{url: /s, numbers: [n], json: {n: §""}}', "bad-number", "write a number"),
    ('{url: /s, numbers: [n], json: {n: §"%{env.HOME}"}}', "bad-number", "write a number"),
    ('{url: /s, numbers: [§m], json: {n: "{1..2}"}}', "unknown-key", "`json` has no key 'm'"),
    ('{url: /s, §numbers: [m], form: {m: "{1..2}"}}', "missing-key", "`numbers` are keys of `json`"),
    ('{url: /s, form: {a: b}, §json: {q: "{1..2}"}}', "conflict", "both set the body"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "code", "text"), PROBLEMS)
def test_each_problem_has_its_place_and_shows_no_value(tmp_path: Path, written: str, code: str, text: str) -> None:
    marked = (DEFS % written).splitlines()[0]
    (tmp_path / "shop.yml").write_text(DEFS % written.replace("§", ""), "utf-8")
    with pytest.raises(DefsError) as raised:
        load(tmp_path / "shop.yml")
    (problem,) = raised.value.problems
    assert (problem.code, problem.line, problem.column) == (code, 1, marked.index("§") + 1)
    assert text in problem.message
    assert "secret" not in problem.message
