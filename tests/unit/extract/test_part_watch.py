"""Parts of a dataDef that give nothing are noted for the end of the run, with the nearest name of the page."""

from typing import Any

import pytest

from crawl_engine.extract.page.page import PageKind
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, FilterRule
from crawl_engine.model.link import Link, NextPage, RequestTemplate
from crawl_engine.model.record import MISS, REFUSED, SLIP, WORKED
from crawl_engine.node.extraction.page_extraction import apply_data_defs
from tests.unit.extract.pages import CONTEXT, page

LIST = (
    "<ul id=shop><li class='product new'><h2>Tea</h2><b class=price title=x>4.50 EUR</b><i></i>"
    "<a class=more href=/a>a</a></li></ul><p class=total>9</p><a class=next href=/2>n</a>"
    "<table class=t><tr><th>Name<th>Price<tr><td>a<td>1</table>"
    '<script type="application/ld+json">{"@type": "Product", "name": "Tea"}</script>'
    '<script id=data>{"items": [{"a": 1}]}</script>'
)
XML = "<feed><entry><title>x</title></entry></feed>"
JSON = '{"items": [{"name": "Tea", "offer": {"price": 1}}], "cursor": null}'
CSV = "SKU;Price\nA-1;4\n"


def signs(markup: str, data_def: DataDef, kind: PageKind = "html") -> dict[tuple[str, str], str]:
    return signs_of(RecordExtractor(data_def), markup, kind)


def signs_of(extractor: RecordExtractor, markup: str, kind: PageKind = "html") -> dict[tuple[str, str], str]:
    result = apply_data_defs(page(markup, kind=kind), CONTEXT, [(extractor, True)], 100)
    assert result.warnings == ()
    return {(one.field, one.code): one.text for one in result.signs}


@pytest.mark.parametrize(
    ("markup", "kind", "block", "field", "code", "text"),
    [
        (LIST, "html", "li", {"selector": ".prise"}, SLIP, "did you mean `.price`?"),
        (LIST, "html", "li", {"selector": "b.price[titel]"}, SLIP, "did you mean `@title`?"),
        (LIST, "html", "li", {"selector": "em"}, MISS, "no `em` is there"),
        (LIST, "html", "li", {"selector": ".total"}, SLIP,
         "it matches outside of the block: `scope: page` reads the whole page"),
        (LIST, "html", None, {"selector": "#shopp li"}, SLIP, "did you mean `#shop`?"),
        (LIST, "html", "li", {"selector": "xpath: .//b[@class='prise']"}, SLIP, "did you mean `price`?"),
        (LIST, "html", "li", {"selector": "xpath: .//b/@titel"}, SLIP, "did you mean `@title`?"),
        (LIST, "html", "li", {"selector": "h2 > b"}, MISS, ""),
        (LIST, "html", "li", {"selector": "b", "attribute": "titel"}, SLIP, "did you mean `attribute: title`?"),
        (LIST, "html", "li", {"selector": "b", "attribute": "data-x"}, MISS,
         "its elements have the attributes `class`, `title`"),
        (LIST, "html", "li", {"selector": "i"}, MISS, "its elements have no text"),
        (LIST, "html", "li", {"selector": "b", "match": "[0-9]+ USD"}, SLIP,
         "`match` matches none of its texts, such as '4.50 EUR'"),
        (LIST, "html", "li", {"selector": "h2", "map": {"T": "x"}}, SLIP,
         "`map` has none of its texts, such as 'Tea'"),
        (LIST, "html", "li", {"selector": "h2", "match": ".*", "map": {"T": "x"}}, SLIP,
         "`match` and `map` leave nothing of its texts, such as 'Tea'"),
        (LIST, "html", "table: .t", {"column": "Prise"}, SLIP, "did you mean `Price`?"),
        (LIST, "html", "table: .t", {"column": "Colour"}, MISS, "the headings are `Name`, `Price`"),
        (LIST, "html", None, {"selector": "jsonld: Produkt.name"}, SLIP, "did you mean `Product`?"),
        (LIST, "html", None, {"selector": "jsonld: Product.nam"}, SLIP, "did you mean `name`?"),
        (LIST, "html", None, {"selector": "jmespath(#dat): items"}, SLIP, "did you mean `#data`?"),
        (LIST, "html", None, {"selector": "jmespath(#data): itms[0].a"}, SLIP, "did you mean `items`?"),
        (XML, "xml", "entry", {"selector": "titel"}, SLIP, "did you mean `title`?"),
        (JSON, "json", "jmespath: items", {"selector": "jmespath: nam"}, SLIP, "did you mean `name`?"),
        (JSON, "json", "jmespath: items", {"selector": "jmespath: offer.amount"}, MISS, "the keys there are `price`"),
        (JSON, "json", "jmespath: items", {"selector": "jmespath: nam || a.b"}, SLIP, "did you mean `name`?"),
        (CSV, "csv", "jmespath: @[?SKU]", {"selector": "jmespath: Prise"}, SLIP, "did you mean `Price`?"),
    ],
)  # fmt: skip
def test_a_field_that_is_never_filled(
    markup: str, kind: PageKind, block: str | None, field: dict[str, Any], code: str, text: str
) -> None:
    data_def = DataDef(name="d", block=block, fields=(Field(name="f", **field),))
    assert signs(markup, data_def, kind) == {("f", code): text}


@pytest.mark.parametrize(
    ("markup", "kind", "block", "code", "text"),
    [
        (LIST, "html", "li.prodct", SLIP, "did you mean `.product`?"),
        (LIST, "html", "table: .zzz", MISS, "no `.zzz` is there"),
        (LIST, "html", "table: h2", SLIP, "no table is there"),
        ("<table><tr><th>a</table>", "html", "table: table", MISS, "its table has nothing beside its headings"),
        (LIST, "html", "xpath: //li[@class='produkt']", SLIP, "did you mean `product`?"),
        (LIST, "html", "jsonld: Produkt", SLIP, "did you mean `Product`?"),
        (JSON, "json", "jmespath: item", SLIP, "did you mean `items`?"),
        (XML, "xml", "entri", SLIP, "did you mean `entry`?"),
    ],
)
def test_a_block_that_matches_nothing(markup: str, kind: PageKind, block: str, code: str, text: str) -> None:
    data_def = DataDef(name="d", block=block, fields=(Field(name="f"),))
    assert signs(markup, data_def, kind) == {("block", code): text}


def test_links_and_the_next_page() -> None:
    links = (Link(selector="a.nxt"), Link(selector="a.next"), Link(selector="a", allow=("/x/",)), Link(selector="a.q"))
    fields = (Field(name="f", selector="h2"),)
    following = NextPage(request=RequestTemplate(), variables=(("u", "a.nexd"),))
    extractor = RecordExtractor(DataDef(name="d", fields=fields, links=links, next=following))
    first = {
        ("links[1]", SLIP): "did you mean `.next`?",
        ("links[2]", WORKED): "",
        ("next", SLIP): "did you mean `.next`?",
    }
    assert signs_of(extractor, LIST) == first
    more = {("links[3]", MISS): "none of its URLs is followed, such as '/a'", ("links[4]", MISS): "no `.q` is there"}
    assert signs_of(extractor, LIST) == first | more, "one page alone may be the only one of its list"
    inner = Link(selector="a.more", in_block=True, carry=("f",))
    block = DataDef(name="d", block="li", fields=fields, links=(inner,))
    assert signs(LIST, block) == {("links[1]", WORKED): ""}
    cursor = NextPage(request=RequestTemplate(), variables=(("u", "jmespath: cursor"),))
    api = DataDef(name="d", block="jmespath: items", fields=(Field(name="f", selector="jmespath: name"),), next=cursor)
    assert signs(JSON, api, "json") == {}, "a cursor that is null ends the chain"


def test_nested_fields_and_rejected_records() -> None:
    inner = (Field(name="x", attribute="title"), Field(name="y", attribute="titel"))
    nested = DataDef(name="d", block="li", fields=(Field(name="parts", selector="b", fields=inner),))
    assert signs(LIST, nested) == {("parts.x", WORKED): "", ("parts.y", MISS): ""}
    rejected = DataDef(name="d", block="li", fields=(Field(name="f", selector="h2", type="int"),))
    assert signs(LIST, rejected) == {("f", REFUSED): "'Tea' is not a whole number (:0:0)"}
    filtered = DataDef(name="d", block="li", fields=(Field(name="f"),), filters=(FilterRule(field="f", pattern=".*"),))
    assert signs(LIST, filtered) == {}


def test_a_part_is_looked_at_a_few_times_and_what_works_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = (Field(name="f", selector="h2"), Field(name="g", selector=".prise"), Field(name="h", selector=".sale"))
    data_def = DataDef(name="d", block="li", fields=fields, links=(Link(selector="a.next"),))
    extractor = RecordExtractor(data_def)
    found = {("g", SLIP): "did you mean `.price`?", ("h", MISS): "no `.sale` is there", ("links[1]", WORKED): ""}
    for _ in range(3):
        assert signs_of(extractor, LIST) == found
    monkeypatch.setattr(extractor, "_watch_parts", None)
    assert signs_of(extractor, LIST) == {}
