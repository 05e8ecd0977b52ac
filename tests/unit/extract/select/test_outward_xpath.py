"""XPath that leaves its block: the block stands at its place in the page, of CSS blocks too."""

from typing import Any

import pytest

from crawl_engine.extract.documents import xpath as xpath_module
from crawl_engine.extract.documents.xpath import XPathExpression, parse_markup
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from tests.unit.extract.pages import CONTEXT, extract, page, value

PAGE = """
<html lang=en><h2>Teas</h2><ul id=teas><li>1<ul><li>2 <b>x</b></ul></ul><h2>Coffees</h2><ul id=coffees><li>3</ul>
<dl><dt>Weight<dd>5 kg</dd><dt>Colour<dd>red</dd><dd>green</dl>
"""


def column(block: str, xpath: str, markup: str = PAGE, kind: Any = "html") -> list[Any]:
    data_def = DataDef(name="d", block=block, fields=(Field(name="f", selector=f"xpath: {xpath}"),))
    return [row["f"] for row in extract(data_def, markup, kind=kind).rows]


@pytest.mark.parametrize("prefix", ["", "xpath: //"])
@pytest.mark.parametrize(
    ("block", "xpath", "expected"),
    [
        ("dt", "following-sibling::dd[1]", ["5 kg", "red"]),
        ("dt", "following-sibling::dd[1]/text()", ["5 kg", "red"]),
        ("dt", "following-sibling::text()", [None, None]),
        ("li", "../preceding-sibling::h2[1]", ["Teas", None, "Coffees"]),
        ("li", "ancestor::ul[last()]/@id", ["teas", "teas", "coffees"]),
        ("li", "count(ancestor::li)", ["0", "1", "0"]),
        ("li", "ancestor::html/@lang", ["en"] * 3),
        ("li", "//b/..", ["2 x", "2 x", None]),
        ("li", "(//b)[1]/ancestor::ul[last()]/@id", ["teas", "teas", None]),
        ("li", "count(../preceding-sibling::* | //b)", ["2", "1", "3"]),
        ("li", "../self::*[count(//li) = 1]/@id", ["teas", None, None]),
        ("li", "//h2", [None] * 3),
        ("li", "'../..'", ["../.."] * 3),
        ("li", "/ul/li/..", [None] * 3),
    ],
)
def test_a_block_is_the_context_node_in_the_page(prefix: str, block: str, xpath: str, expected: list[str]) -> None:
    assert column(f"{prefix}{block}", xpath) == expected


@pytest.mark.parametrize(
    "xpath",
    [
        ".//a/..", "child::a / ..", ".//text()/..", "* /parent::p", "descendant::a[1]/parent::*", "concat('..', a)",
        "//th[. = 'a..b']/following-sibling::td[1]", ".//td[preceding-sibling::th]", "td[a]/b[c[d]]/..",
        "td[1][b[1]]/following-sibling::td[2]/following-sibling::td", "/div/ancestor::x", "div/@id",
    ],
)  # fmt: skip
def test_an_expression_that_stays_inside_reads_the_block_alone(xpath: str) -> None:
    assert not XPathExpression(xpath).leaves_block


@pytest.mark.parametrize(
    "xpath",
    [
        "..", "../x", "./..", "//..", "//a/../..", "@id/..", "self::a/..", "a[not(..)]", "string(../h2)",
        "following-sibling::dd[1]", "count(ancestor::li)", "a/ancestor-or-self::b", "count(following::p)",
    ],
)  # fmt: skip
def test_an_expression_that_may_leave_needs_the_page(xpath: str) -> None:
    assert XPathExpression(xpath).leaves_block


@pytest.mark.parametrize("outer", ["ul", "xpath: .//ul"])
def test_nested_fields_leave_their_match_and_the_block(outer: str) -> None:
    inner = (Field(name="n", selector="xpath: count(ancestor::ul)"), Field(name="h", selector="xpath: ../../h3"))
    fields = (Field(name="lists", selector=outer, fields=inner),)
    markup = "<ul><h3>No</h3><li><h3>A</h3><div><ul><li>x</ul></div></ul>"
    rows = extract(DataDef(name="d", block="li", fields=fields), markup).rows
    assert rows == ({"lists": [{"n": "1", "h": "A"}]}, {"lists": []})


def test_the_page_is_left_as_it_was() -> None:
    fields = (Field(name="up", selector="xpath: count(..)"), Field(name="html", attribute="outerHtml"))
    fields += (Field(name="xhtml", selector="xpath: ../*[@*]", attribute="outerHtml"),)
    rows = extract(DataDef(name="d", block="b[id], i", fields=fields), "<p><b id=1>x</b><i id=2>y</i>").rows
    assert rows == (
        {"up": "1", "html": '<b id="1">x</b>', "xhtml": '<b id="1">x</b>'},
        {"up": "1", "html": '<i id="2">y</i>', "xhtml": '<b id="1">x</b>'},
    )


def test_blocks_of_xml_leave_too() -> None:
    assert column("b", "../a", "<r><x><a>1</a><b/></x><x><a>2</a><b/></x></r>", kind="xml") == ["1", "2"]


def test_scope_page_reads_the_page_as_before() -> None:
    assert value(PAGE, block="dl", selector="xpath: //li[b]/..", scope="page") == "2 x"


def test_a_block_beyond_the_limits_of_the_parser_is_told() -> None:
    data_def = DataDef(name="d", block="b", fields=(Field(name="f", selector="xpath: count(ancestor::div)"),))
    deep = page("<b>x</b>" + "<div>" * 3_000 + "<b>y</b>")
    assert [row["f"] for row in RecordExtractor(data_def).extract(deep, CONTEXT).rows] == ["0", "0"]
    assert any("reads a part of the page alone" in fault for fault in deep.faults)
    assert any("cannot leave a block" in fault for fault in deep.faults)


def test_the_page_is_parsed_once_for_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def count(markup: bytes, **how: Any) -> Any:
        parsed.append(len(markup))
        return parse_markup(markup, **how)

    monkeypatch.setattr(xpath_module, "parse_markup", count)
    assert column("i", "following-sibling::b[1]", "<p><i>x</i><b>y</b>" * 1_000) == ["y"] * 1_000
    assert len(parsed) == 1
    fields = tuple(Field(name=name, selector=f"xpath: count(../{name})") for name in "ib")
    extract(DataDef(name="d", block="i, b, u, s", fields=fields), "<p><i>x</i><b>y</b><u>z</u><s>z</s>" * 100)
    assert len(parsed) == 3, "once more for all tags"


def test_links_of_a_block_leave_it() -> None:
    link = Link(selector="xpath: following-sibling::dd[1]/a", in_block=True, group="g", carry=("name",))
    data_def = DataDef(name="d", block="dt", fields=(Field(name="name"),), links=(link,))
    found = extract(data_def, "<dl><dt>a<dd><a href=/1>x</a><dt>b<dd><a href=/2>y</a></dl>").links
    assert [(one.url, one.details and one.details.carried) for one in found] == [
        ("https://shop.example/1", '[{"name":"a"},""]'), ("https://shop.example/2", '[{"name":"b"},""]'),
    ]  # fmt: skip
