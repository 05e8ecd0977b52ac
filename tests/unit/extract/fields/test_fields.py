"""Field values: select → attribute → normalize → match → blank = missing → default → type → required."""

from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.stored_form import SourcePosition
from tests.unit.extract.pages import CONTEXT, extract, page, reason, value


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p> a\n\t&nbsp; b\u2003c </p>", "a b c"),
        ("<p>John<b>ny</b></p>", "Johnny"),
        ("<p>a<br>b</p>", "a b"),
        ("<p>a<script>x()</script><style>p{}</style><!-- c -->b</p>", "ab"),
        ("<p>x &lt; y &amp; z</p>", "x < y & z"),
        ("<p></p>", None),
        ("<p>&nbsp;</p>", None),
        ("", None),
    ],
)
def test_text_is_the_visible_text(markup: str, text: str | None) -> None:
    assert value(markup, selector="p") == text
    assert value(markup, selector="xpath://p") == text


def test_inner_blocks_are_separated_by_spaces() -> None:
    markup = "<div><table><tr><td>a</td><td>b</td></tr></table><ul><li>c<li>d</ul><p>e</p>f<i>g</i></div>"
    assert value(markup, selector="div") == "a b c d e fg"
    assert value(markup, selector="xpath://div") == "a b c d e fg"


def test_a_selected_script_has_its_text() -> None:
    assert value("<script>var a  = 1;</script>", selector="script") == "var a = 1;"


@pytest.mark.parametrize("selector", ["p", "xpath://p"])
def test_attributes(selector: str) -> None:
    markup = "<p id=' i  d ' TITLE='t' data-x>own <b>bo  ld</b>\n text<br>end</p>"
    assert value(markup, selector=selector, attribute="id") == "i d"
    assert value(markup, selector=selector, attribute="title") == "t"
    assert value(markup, selector=selector, attribute="Title") == "t"
    assert value(markup, selector=selector, attribute="data-x") is None
    assert value(markup, selector=selector, attribute="none") is None
    assert value(markup, selector=selector, attribute="ownText") == "own text end"
    assert value(markup, selector=selector, attribute="html") == "own <b>bo  ld</b>\n text<br>end"
    outer = value(markup, selector=selector, attribute="outerHtml")
    assert outer.startswith("<p id=")
    assert outer.endswith("end</p>")


def test_the_first_match_or_all_matches() -> None:
    markup = "<i>a</i><i> </i><i>b</i>"
    assert value(markup, selector="i") == "a"
    assert value(markup, selector="i", all=True) == ["a", "b"]
    assert value(markup, selector="u", all=True) == []
    assert value(markup, selector="i", all=True, type="str", match="b") == ["b"]
    assert value("<i>1</i><i>2</i>", selector="i", all=True, type="int") == [1, 2]
    assert reason("<i>1</i><i>x</i>", selector="i", all=True, type="int") == "'x' is not a whole number"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[0-9.]+", "51.77"),
        ("£([0-9]+)", "51"),
        ("(x)?51", None),
        ("x", None),
        ("now (.)", "o"),
        ("Costs( )", None),
        (r"\p{Sc}", "£"),
    ],
)
def test_match_returns_group_one_or_the_whole_match(pattern: str, expected: str | None) -> None:
    assert value("<p>Costs\n £51.77 now or never</p>", selector="p", match=pattern) == expected


def test_match_searches_normalized_text() -> None:
    assert value("<p>a\n\n b</p>", selector="p", match="a b") == "a b"


def test_bool() -> None:
    stock = {"selector": "p", "type": "bool", "match": "In stock", "default": False, "has_default": True}
    assert value("<p>Yes! In stock (3)</p>", **stock) is True
    assert value("<p>sold out</p>", **stock) is False
    assert value("", **stock) is False
    assert value("<p>sold out</p>", selector="p", type="bool", match="In stock") is None
    assert value("<p>Yes</p>", selector="p", type="bool") is True
    assert "`match`" in reason("<p>In stock</p>", selector="p", type="bool")


@pytest.mark.parametrize(
    ("field", "default", "expected"),
    [
        ({}, "d", "d"),
        ({}, "", ""),
        ({}, None, None),
        ({}, 5, "5"),
        ({"type": "int"}, "7", 7),
        ({"type": "int"}, 7, 7),
        ({"type": "decimal"}, "1.50", Decimal("1.50")),
        ({"type": "bool"}, "yes", True),
        ({"type": "bool"}, False, False),
        ({"type": "url"}, "/x", "https://shop.example/x"),
        ({"type": "json"}, {"a": 1}, {"a": 1}),
        ({"type": "json"}, "[1]", [1]),
        ({"all": True}, "d", ["d"]),
        ({"all": True, "type": "int"}, ["1", 2], [1, 2]),
        ({"all": True}, None, []),
    ],
)
def test_a_default_replaces_a_missing_value_and_is_converted(
    field: dict[str, Any], default: Any, expected: Any
) -> None:
    assert value("<p> </p>", selector="p", default=default, has_default=True, **field) == expected


def test_a_default_does_not_replace_a_value() -> None:
    assert value("<p>0</p>", selector="p", type="int", default=9, has_default=True) == 0


def test_required_is_checked_last() -> None:
    assert reason("", selector="p", required=True) == "the field is required but missing"
    assert value("", selector="p", required=True, default="d", has_default=True) == "d"
    assert "required" in reason("", selector="p", required=True, default=None, has_default=True)
    assert "required" in reason("<p>a</p>", selector="p", match="b", required=True)
    assert "required" in reason("", selector="p", all=True, required=True)
    assert reason("", selector="p", type="int", default="x", has_default=True).startswith("the default: 'x'")


def test_values_are_constants_or_variables() -> None:
    assert value("", value="%{locator.group}/%{depth}") == "books/1"
    assert value("", value="%{document.url}", match="page-([0-9]+)", type="int") == 1
    assert value("<p>x</p>", selector="p", value="constant") == "constant"
    assert value("", value="") is None
    assert value("", value="a", all=True) == ["a"]


def test_without_selector_the_block_or_page_is_read() -> None:
    assert value("<li>a</li>", block="li") == "a"
    assert value("<title>t</title><p>a") == "t a"
    assert value("<li data-n=5>", block="li", attribute="data-n") == "5"


def test_urls_resolve_against_the_base() -> None:
    markup = "<base href=/b/><a href=' x y#z '>"
    assert value(markup, selector="a", attribute="href", type="url") == "https://shop.example/b/x%20y#z"


@pytest.mark.parametrize(("count", "kept", "said"), [(5_000, 5_000, False), (5_001, 5_000, True)])
def test_a_field_names_so_many_files_at_most(count: int, kept: int, said: bool) -> None:
    document = page("".join(f"<li>/{number}</li>" for number in range(count)))
    data_def = DataDef(name="d", fields=(Field(name="f", selector="li", all=True, type="file"),))
    (row,) = RecordExtractor(data_def).extract(document, CONTEXT).rows
    assert row["f"] == [f"https://shop.example/{number}" for number in range(kept)]
    assert ("`f` names more than 5,000 files; the others are left out" in document.faults) is said


def test_json_keeps_white_space() -> None:
    assert value('<script> {"a":  "x  y"} </script>', selector="script", type="json") == {"a": "x  y"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("//a/@href", "x"),
        ("//a/text()", "t"),
        ("string(//a)", "t"),
        ("count(//a)", "2"),
        ("1 div 4", "0.25"),
        ("boolean(//a)", "true"),
        ("number('x')", None),
        ("//u", None),
        ("//comment()", None),
        ("//a[contains(., 'u')]", "u"),
        ("/html/body/a[2]", "u"),
        ("unknown()", None),
        ("$x", None),
    ],
)
def test_xpath_results(path: str, expected: str | None) -> None:
    assert value("<a href=x>t</a><!-- c --><a>u</a><p><b>unclosed", selector=f"xpath:{path}") == expected


def test_xpath_is_scoped_to_its_block() -> None:
    markup = "<div class=o><a>out</a><li id=1><a>in</a><ul><li id=2>sub</ul></li></div>"
    for block in ("li", "xpath://li"):
        data_def = DataDef(
            name="d",
            block=block,
            fields=(
                Field(name="a", selector="xpath://a", all=True),
                Field(name="li", selector="xpath://li/@id", all=True),
                Field(name="up", selector="xpath:ancestor::div"),
                Field(name="id", selector="xpath:@id"),
                Field(name="css", selector="a"),
                Field(name="trap", selector=".o a"),
            ),
        )
        assert extract(data_def, markup).rows == (
            {"a": ["in"], "li": ["2"], "up": "out in sub", "id": "1", "css": "in", "trap": None},
            {"a": [], "li": [], "up": "out in sub", "id": "2", "css": None, "trap": None},
        )


@pytest.mark.parametrize("tag", ["tr", "td", "tbody", "option", "title", "body", "html", "p", "dd"])
def test_a_block_is_converted_between_selector_kinds(tag: str) -> None:
    inner = {"tr": "<td><i>x</i></td>", "tbody": "<tr><td><i>x</i>"}.get(tag, "<i>x</i>")
    whole = {
        "tr": "<table><tr>{}",
        "td": "<table><tr><td>{}",
        "tbody": "<table><tbody>{}",
        "option": "<select><option>{}",
    }
    markup = whole.get(tag, f"<{tag}>{{}}").format(inner)
    assert value(markup, block=f"xpath://{tag}") == "x" or tag == "title"
    if tag not in ("title", "option"):
        assert value(markup, block=f"xpath://{tag}", selector="i") == "x"
        assert value(markup, block=tag, selector="xpath://i") == "x"


def test_xpath_of_xml() -> None:
    text = '<?xml version="1.0" encoding="latin-1"?><rss><item><link>u&amp;v</link></item><item><link/></item></rss>'
    assert value(text, kind="xml", selector="xpath://item/link", all=True) == ["u&v"]


JSON = '{"items": [{"n": "a", "p": 19.90, "t": ["x", null, "y"], "o": {"k": 1}}, {"n": "b", "p": 3}], "ok": true}'


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"selector": "jmespath:items[0].n"}, "a"),
        ({"selector": "jmespath:items[].n"}, "a"),
        ({"selector": "jmespath:items[].n", "all": True}, ["a", "b"]),
        ({"selector": "jmespath:items[0].t", "all": True}, ["x", "y"]),
        ({"selector": "jmespath:items[].p", "all": True, "type": "decimal"}, [Decimal("19.90"), Decimal(3)]),
        ({"selector": "jmespath:items[?p > `10`].n"}, "a"),
        ({"selector": "jmespath:sum(items[].p)", "type": "float"}, 22.9),
        ({"selector": "jmespath:ok", "type": "bool"}, True),
        ({"selector": "jmespath:items[0].t", "type": "json"}, ["x", None, "y"]),
        ({"selector": "jmespath:items[0].n", "type": "json"}, "a"),
        ({"selector": "jmespath:items[0].o"}, '{"k":1}'),
        ({"selector": "jmespath:items[0]", "attribute": "n"}, "a"),
        ({"selector": "jmespath:none"}, None),
        ({"selector": "jmespath:sum(items)"}, None),
        ({"selector": "p"}, None),
        ({"selector": "xpath://p"}, None),
    ],
)
def test_jmespath(field: dict[str, Any], expected: Any) -> None:
    assert value(JSON, kind="json", **field) == expected


def test_json_blocks_are_items() -> None:
    fields = (Field(name="n", selector="jmespath:n"), Field(name="all", type="json"), Field(name="css", selector="p"))
    extraction = extract(DataDef(name="d", block="jmespath:items[1:]", fields=fields), JSON, kind="json")
    assert extraction.rows == ({"n": "b", "all": {"n": "b", "p": 3}, "css": None},)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "<p>x</p>"])
def test_jmespath_matches_nothing_in_other_documents(text: str) -> None:
    assert value(text, kind="html", selector="jmespath:a") is None
    assert value(text, kind="json", selector="jmespath:a") is None


def test_nested_fields_are_objects() -> None:
    markup = "<ul><li class=v><b>S</b><i>1</i></li><li class=v><b>M</b></li></ul><b>out</b>"
    inner = (Field(name="size", selector="b"), Field(name="n", selector="i", type="int"))
    assert value(markup, selector="li.v", fields=inner) == [{"size": "S", "n": 1}, {"size": "M", "n": None}]
    assert value("", selector="li.v", fields=inner) == []
    assert "required" in reason("", selector="li.v", fields=inner, required=True)


def test_a_nested_field_rejects_the_record_with_its_path() -> None:
    inner = Field(name="n", selector="i", required=True, place=SourcePosition("d.yml", 7, 9))
    data_def = DataDef(name="d", fields=(Field(name="v", selector="li", fields=(inner,)),))
    (rejection,) = extract(data_def, "<li><i>1</i></li><li></li>").rejected
    assert (rejection.field, rejection.place) == ("v.n", "d.yml:7:9")


@pytest.mark.parametrize(
    "broken", [{"selector": "p["}, {"selector": "xpath://["}, {"selector": "jmespath:a["}, {"match": "("}]
)
def test_an_invalid_field_rejects_the_record(broken: dict[str, str]) -> None:
    assert reason("<p>x</p>", **broken)
