"""The data of Nuxt: a list of places, and a call; and whatever refers to itself, or to too much."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.embedded.nuxt import read_page_data
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import TextSource
from tests.unit.extract.pages import CONTEXT, page


def read_list(*values: object) -> object:
    return read_page_data([json.dumps(values)])


def read_script(script: str) -> object:
    return read_page_data([f"x();window.__NUXT__={script};y()"])


@pytest.mark.parametrize(
    ("values", "data"),
    [
        ([{"a": 1, "b": 2}, 4.5, [1, 3], "x"], {"a": 4.5, "b": [4.5, "x"]}),
        ([["ShallowReactive", 1], {"data": 2}, ["Reactive", 3], {"n": 4}, ["Ref", 5], True], {"data": {"n": True}}),
        ([{"a": -1, "b": -3, "c": -4}], {"a": None, "b": None, "c": None}),
        ([[1, -2, 1], "x"], ["x", None, "x"]),
        ([{"d": 1}, ["Date", "2026-01-31T12:00:00.000Z"]], {"d": "2026-01-31T12:00:00.000Z"}),
        ([{"s": 1}, ["Set", 2, 3], "a", "b"], {"s": ["a", "b"]}),
        ([{"m": 1}, ["Map", 2, 3, 4, 5], "a", 1, "b", 2], {"m": {"a": 1, "b": 2}}),
        ([{"m": 1}, ["Map", 2, 3], 7, 1], {"m": [[7, 1]]}),
        ([{"n": 1}, ["BigInt", "12345678901234567890"]], {"n": 12345678901234567890}),
        ([{"o": 1}, ["null", "a", 2], "x"], {"o": {"a": "x"}}),
        ([{"e": 1}, ["EmptyRef", 2], '"text"'], {"e": "text"}),
        ([{"e": 1}, ["EmptyShallowRef", 2], "_"], {"e": None}),
        ([{"l": 1}, [-7, 3, 1, 2], "x"], {"l": [None, "x", None]}),
        ([{"r": 1}, ["RegExp", "a+", "g"]], {"r": None}),
        ([{"far": 99}], {"far": None}),
    ],
)
def test_a_list_of_places(values: list[object], data: object) -> None:
    assert read_list(*values) == (data, "")


@pytest.mark.parametrize(
    ("script", "data"),
    [
        ("{layout:'default',data:[{a:1}]}", {"layout": "default", "data": [{"a": 1}]}),
        ('(function(a,b,c){return {x:a,y:[b,a],z:c}}(1.50,null,"t"))', {"x": 1.5, "y": [None, 1.5], "z": "t"}),
        ("(function(){return {x:1}})()", {"x": 1}),
        ("function(a){return a}({b:[1,2]})", {"b": [1, 2]}),
        (
            '(function(a,b,c){a.name="Sencha";a["the price"]=b;c[0]=a;c[1]=b;return {t:c,u:a}}({},4.5,Array(2)))',
            {"t": [{"name": "Sencha", "the price": 4.5}, 4.5], "u": {"name": "Sencha", "the price": 4.5}},
        ),
        ("(function(a,b){a.b=b;b.n=1;return {a:a}}({},{}))", {"a": {"b": {"n": 1}}}),
        ("(function(a){return {d:new Date(1769860800000),a:a}}(2))", {"d": "2026-01-31T12:00:00.000Z", "a": 2}),
        ("(function(a,b){return {a:a,b:b}}(1))", {"a": 1, "b": None}),
        ("(function($,_a){return {$:$,_a:_a}}(1,2))", {"$": 1, "_a": 2}),
    ],
)
def test_a_call_with_arguments(script: str, data: object) -> None:
    assert read_script(script) == (data, "")


@pytest.mark.parametrize(
    "script",
    [
        "(function(a){for(;;){}return {a:a}}(1))",
        "(function(a){a.push(1);return {a:a}}([]))",
        "(function(a){return {a:a}}",
        "(function(a){return {a:a",
        "(function(a){if(a)return {}}(1))",
        "(a=>({a}))(1)",
    ],
)
def test_what_only_a_script_knows_is_told(script: str) -> None:
    data, fault = read_page_data([f"__NUXT__={script}"])
    assert data is MISSING
    assert fault


def test_values_that_only_a_script_knows_are_missing_and_told() -> None:
    data, fault = read_script("(function(a){return {d:new Date(),a:a,f:a.b,g:a+1}}(2))")
    assert data == {"d": None, "a": 2, "f": None, "g": None}
    assert "3 values of Nuxt's data only a script knows: missing, such as `new Date()" in fault


def test_a_reference_to_itself_is_left_out_and_told() -> None:
    data, fault = read_list({"a": 1}, {"b": 0, "c": 2}, "x")
    assert data == {"a": {"b": None, "c": "x"}}
    assert "refers to itself" in fault
    data, fault = read_script("(function(a){a.self=a;a.n=1;return {a:a}}({}))")
    assert data == {"a": {"self": None, "n": 1}}
    assert "refers to itself" in fault
    assert read_list(["ShallowReactive", 0])[0] is None


def test_much_in_little_ends_soon_and_is_told() -> None:
    """Each value names the one behind it twice; one names a hundred thousand others; one nests without end."""
    bomb: list[object] = [[number, number] for number in range(1, 60)]
    begun = time.perf_counter()
    data, fault = read_list(*bomb, "x")
    assert (data, "more than" in fault) == (MISSING, True)
    data, fault = read_list(*([number] for number in range(1, 100_000)), "x")
    assert (data, fault) == (MISSING, "nests too deep")
    script = "".join(f"a{n}.l=a{n + 1};a{n}.r=a{n + 1};" for n in range(59))
    names, empty = ",".join(f"a{n}" for n in range(60)), ",".join("{}" for _ in range(60))
    data, fault = read_script(f"(function({names}){{{script}return a0}}({empty}))")
    assert (data, "more than" in fault) == (MISSING, True)
    assert time.perf_counter() - begun < 20


def test_other_texts_have_none() -> None:
    for text in ("", "x()", "[]", '[{"@type": "Product"}]', "[1,2]", "window.__NUXT__={};", '{"a": 1}', "[[1.5]]"):
        assert read_page_data([text])[0] is MISSING, text


def test_pages_of_both_versions_and_a_payload_give_records() -> None:
    fields = (Field(name="id", selector="jmespath: id", type="int"),)
    three = json.dumps(
        [["ShallowReactive", 1], {"data": 2}, ["Reactive", 3], {"teas": 4}, [5, 6], {"id": 7}, {"id": 8}, 1, 2]
    )
    pages = (
        page(f'<script id="__NUXT_DATA__" type="application/json">{three}</script><script>__NUXT__={{}};</script>'),
        page("<script>__NUXT__=(function(a){return {data:{teas:[{id:a},{id:2}]}}}(1))</script>"),
        page(three, kind="json"),
    )
    for one in pages:
        data_def = DataDef(name="d", sources=(TextSource(format="nuxt"),), block="jmespath: data.teas", fields=fields)
        assert RecordExtractor(data_def).extract(one, CONTEXT).rows == ({"id": 1}, {"id": 2})


@given(
    st.lists(
        st.recursive(
            st.integers(-8, 9) | st.text(max_size=3),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
        ),
        min_size=1,
    )
)
def test_any_list_ends(values: list[object]) -> None:
    data, _ = read_page_data([json.dumps(values)])
    if data is not MISSING:
        json.dumps(data)


@given(st.text("abf(){}[]=.,;:\"'10 \nreturnfunction", max_size=80))
def test_any_script_ends(text: str) -> None:
    read_page_data([f"__NUXT__={text}"])
    read_page_data([f"__NUXT__=(function(a,b){{{text}"])


def test_few_characters_that_name_very_many_places_are_refused() -> None:
    names = [f"a{number}" for number in range(60)]
    assigned = "".join(f"{name}[999999]=1;" for name in names)
    arrays = ",".join(["Array(1)"] * len(names))
    call = f"window.__NUXT__=(function({','.join(names)}){{{assigned}return {{data:[a0]}}}}({arrays}))"
    sparse = json.dumps([{"data": 1}, *[[-7, 999_999]] * 60])
    for text in (call, sparse):
        assert read_page_data([text]) == (MISSING, "has arrays of more than 1,000,000 places")


def test_keys_of_objects_that_are_numbers_name_no_places() -> None:
    call = "window.__NUXT__=(function(a,b){a[712345]=1;b[698765]=2;return {x:a,y:b}}({},{}))"
    assert read_page_data([call]) == ({"x": {"712345": 1}, "y": {"698765": 2}}, "")
