"""Literals of JavaScript as JSON: what they become, what only a script knows, and hostile scripts."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawl_engine.extract.embedded.js_literal import LiteralInvalid, find_assigned, read_literal


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{a: 1, $b_2: 'x', \"c\": [1, 2,],}", '{"a":1,"$b_2":"x","c":[1,2]}'),
        ("[1.10, .5, 5., 0x1F, 1_000, 12n, +3, -2e3, - 4]", "[1.10,0.5,5,31,1000,12,3,-2e3,-4]"),
        ("[undefined, void 0, void(0), !0, !1, NaN, -Infinity]", "[null,null,null,true,false,null,null]"),
        ("[1,,2,]", "[1,null,2]"),
        ("{/* a */a:1,// b\nb:2 <!-- c\n}", '{"a":1,"b":2}'),
        (r"'it\'s \x41\u{1F600}\v'", r'"it' + "'" + r's A\ud83d\ude00\u000b"'),
        ("`two\nlines`", '"two\nlines"'),
        ('JSON.parse(\'{"price":1.10}\')', '{"price":1.10}'),
        ("{true:1,2:3,class:{}}", '{"true":1,"2":3,"class":{}}'),
    ],
)  # fmt: skip
def test_a_literal_becomes_json(text: str, written: str) -> None:
    assert read_literal(text) == (written, [])
    assert read_literal(f"x = {text}; more(", 4) == (written, [])


@pytest.mark.parametrize(
    ("text", "value", "unknown"),
    [
        ("{a:new Date(2024, 1, 1),b:2}", {"a": None, "b": 2}, 1),
        ("[a, 'x' + y, 5 * 60, [1].concat([2]), {}.b, `t${1}`, 7]", [None] * 6 + [7], 6),
        (
            "{a, b() { return {c: '}'} }, get d() {}, [e]: 1, ...f, g: 2}",
            {"a": None, "b": None, "get": None, "g": 2},
            5,
        ),
        ("{a: /[\"'}]/g, b: x / 2, c: '/'}", {"a": None, "b": None, "c": "/"}, 2),
        ("{a: JSON.parse('{'), b: 010, c: f({d: [1]})}", {"a": None, "b": None, "c": None}, 3),
    ],
)
def test_what_only_a_script_knows_is_null_and_counted(text: str, value: object, unknown: int) -> None:
    written, expressions = read_literal(text)
    assert json.loads(written) == value
    assert len(expressions) == unknown


@pytest.mark.parametrize("text", ["", "{a:1", "[", "{a:'x", "{a:/* x", "foo", "{a:[1)}", "new Date()", "{a:f(`}"])
def test_what_is_no_literal_is_said(text: str) -> None:
    with pytest.raises(LiteralInvalid):
        read_literal(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000, "{a:" * 100_000, "{a:'" + "x" * 500_000, "{a:" + "/[" * 50_000, "{a:/*" * 50_000,
        "{a:" + "f(" * 100_000,
        "[1" + "_1" * 200_000 + "x", "{a:" + "JSON.parse('" * 30_000, "{a:" + "! " * 50_000, "{a:" + " " * 500_000,
    ],
    ids=["lists", "objects", "string", "regexes", "comments", "calls", "digits", "parses", "operators", "blanks"],
)  # fmt: skip
def test_hostile_scripts_end(text: str) -> None:
    started = time.process_time()
    with pytest.raises(LiteralInvalid):
        read_literal(text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("window.X = {a:1}", "{a"), ("(function(){f()}()); x=[1]", "[1"), ("d = d || []; d.push({a:1})", "{a"),
        ("if (x) { y() }; return {z:1}", "{z"), ("var x = JSON.parse('1')", "JSON"), (" // c\n{a:1}", "{a"),
    ],
)  # fmt: skip
def test_the_first_assigned_value_is_found(text: str, at: str) -> None:
    assert find_assigned(text) == text.index(at)


def test_without_a_value_nothing_is_found() -> None:
    assert find_assigned("f(); if (x) { y() }") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_a_literal(value: object) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        text, unknown = read_literal(written)
        assert json.loads(text, strict=False) == value
        assert unknown == []


@example("'\\'")
@given(st.text("{}[]()'\"`\\/*:,;.-+!0xn1eaJSON.parse \n", max_size=60))
def test_any_text_gives_json_or_says_why(text: str) -> None:
    try:
        written, _ = read_literal(text)
    except LiteralInvalid:
        return
    json.loads(written, strict=False)


def test_a_number_that_is_none_is_an_expression() -> None:
    assert read_literal("[0b2, 0x_, 0o9, 0b11]") == ("[null,null,null,3]", [1, 6, 11])
