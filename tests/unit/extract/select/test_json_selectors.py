"""JSON inside HTML pages: JSON-LD by type, and JMESPath on the JSON in an element."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents import json_ld
from crawl_engine.extract.embedded import documents
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from tests.unit.extract.pages import CONTEXT, extract, page, value

LD = '<script type="application/ld+json">'
TEA = '{"@type": "Product", "name": "Tea", "offers": {"price": 19.90}}'
POT = '{"@type": ["Thing", "https://schema.org/Product"], "name": "Pot", "offers": [{"price": 5}, {"price": 4.50}]}'
CRUMBS = '{"@type": "BreadcrumbList", "itemListElement": [{"item": {"@id": "/a"}}, {"item": {"@id": "/b"}}]}'
NEXT = '<script id=__NEXT_DATA__>{"props": {"items": [{"id": 1.0, "url": "/1"}, {"id": 2}]}}</script>'


def ld(*blocks: str) -> str:
    return "<h1>x</h1>" + "".join(f"{LD}{block}</script>" for block in blocks)


@pytest.mark.parametrize(
    ("markup", "selector", "expected"),
    [
        (ld(TEA), "jsonld: Product.offers.price", ["19.90"]),
        (ld(POT), "jsonld: Product.offers.price", ["5", "4.50"]),
        (ld(POT), "jsonld: Thing.name", ["Pot"]),
        (ld(POT), "jsonld:Product.offers[1].price", ["4.50"]),
        (ld(POT), "jsonld: Product.offers[?price > `4.7`].price", ["5"]),
        (ld(TEA, CRUMBS, POT), "jsonld: Product.name", ["Tea", "Pot"]),
        (ld(f"[{TEA}, [{POT}]]"), "jsonld: Product.name", ["Tea", "Pot"]),
        (ld(f'{{"@context": "https://schema.org", "@graph": [{CRUMBS}, {TEA}]}}'), "jsonld: Product.name", ["Tea"]),
        (ld(f'{{"@type": "Product", "name": "Outer", "@graph": {TEA}}}'), "jsonld: Product.name", ["Outer", "Tea"]),
        (ld('{"@type": "schema:Product", "name": "x"}'), "jsonld: Product.name", ["x"]),
        (ld(CRUMBS), 'jsonld: BreadcrumbList.itemListElement.item."@id"', ["/a", "/b"]),
        (ld(TEA), 'jsonld: Product."name"', ["Tea"]),
        (ld(TEA), "jsonld: Offer.price", []),  # the value of a property has no type of its own
        (ld(TEA), "jsonld: product.name", []),
        (ld(TEA), "jsonld: Product.sku", []),
        (ld(TEA), "jsonld: Product.name.first", []),
        (ld(TEA), "jsonld: Product.length(offers) | max(@)", []),
        (ld('{"@type": "3DModel", "name": null}'), "jsonld: 3DModel.name", []),
        (ld("\ufeff" + TEA, "\n \ufeff\n" + TEA + ";"), "jsonld: Product.name", ["Tea", "Tea"]),
        (ld("<!--\n" + TEA + "\n-->", "//<![CDATA[\n" + TEA + ";\n//]]>"), "jsonld: Product.name", ["Tea", "Tea"]),
        (
            ld("<!-- a -->\n" + TEA + "\n<!-- b -->", "// <![CDATA[\n" + TEA + "\n// ]]>"),
            "jsonld: Product.name",
            ["Tea"] * 2,
        ),
        (ld("<!--//--><![CDATA[//><!--\n" + TEA + "\n//--><!]]>"), "jsonld: Product.name", ["Tea"]),
        (ld("/* a */ " + TEA.replace(",", ", // it's \"5\n", 1) + "; // b"), "jsonld: Product.name", ["Tea"]),
        (
            ld('{"@type": "Product", /* "name": 1 */ "name": "//a /*b*/ <!--c--> \\"//,]", "x": [1,], }'),
            "jsonld: Product.name",
            ['//a /*b*/ <!--c--> "//,]'],
        ),
        (
            ld('{"@type": "Product", "name": "a" /* never closed }', '{"@type": "Product", "name": "b'),
            "jsonld: Product.name",
            [],
        ),
        ("<script id=d>{a: 1}</script><script id=e>{'a': 1}</script>", "jmespath(#d): a", []),
        ('<script id=d>// state\n{"a": "http://x"}</script>', "jmespath(#d): a", ["http://x"]),
        (ld('{"@type": "Product", "name": "two\nlines \\ud800"}'), "jsonld: Product.name", ["two lines �"]),
        (ld(TEA).replace("ld+json", "LD+JSON; charset=utf-8"), "jsonld: Product.name", ["Tea"]),
        (ld(TEA).replace("ld+json", "json"), "jsonld: Product.name", []),
        (NEXT, "jmespath(script#__NEXT_DATA__): props.items[].id", ["1.0", "2"]),
        (NEXT, "jmespath( script:not(.a, [id=')']) ) : props.items[0].id", ["1.0"]),
        (NEXT, "jmespath(#none): props", []),
        (NEXT, "jmespath(script): none[].x", []),
        ("<p>{}</p><p>[1]</p>", "jmespath(p): [0]", []),  # the first match alone
        ("<textarea>[1, 2]</textarea>", "jmespath(textarea): @", ["1", "2"]),
    ],
)
def test_values(markup: str, selector: str, expected: list[str]) -> None:
    assert value(markup, selector=selector, all=True) == expected
    assert value(markup, selector=selector) == (expected[0] if expected else None)


def test_json_stays_json() -> None:
    assert value(ld(POT), selector="jsonld: Product.offers", type="json")[1]["price"] == 4.5
    assert value(NEXT, selector="jmespath(script): props.items[1]", type="json") == {"id": 2}


def test_the_text_of_an_object_has_its_numbers_as_written() -> None:
    for text in ('{"x":1.50,"y":12345678901234567890.1234,"z":1e400}', '{"x":[99999999999999999999999,1.0,"\u00e9"]}'):
        assert value(text, kind="json", selector="jmespath: @") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        "null",
        "12",
        '"Product"',
        "[null, [], {}]",
        "var x = 1",
    ],
)
def test_blocks_of_any_other_form_are_skipped(text: str) -> None:
    markup = ld(text, TEA)
    assert value(markup, selector="jsonld: Product.name") == "Tea"
    assert value(f"<script>{text}</script>", selector="jmespath(script): a.b") is None


@pytest.mark.parametrize("kind", ["@type", "@graph"])
@pytest.mark.parametrize("written", [None, 1, True, "", {}, [[]], [None, 3], {"@type": {}}])
def test_wrong_types_do_no_harm(kind: str, written: Any) -> None:
    markup = ld(json.dumps({"@type": "Product", "name": "a", kind: written}), TEA)
    assert "Tea" in value(markup, selector="jsonld: Product.name", all=True)


def test_many_and_deep_objects_are_read() -> None:
    deep = "[" * 500 + TEA + "]" * 500
    graph = '{"@graph":' * 200 + TEA + "}" * 200
    assert value(ld(deep, graph), selector="jsonld: Product.name", all=True) == ["Tea", "Tea"]
    many = ld(*[TEA] * 5_000)
    assert len(value(many, selector="jsonld: Product.offers.price", all=True)) == 5_000


ADA = {"@type": "Person", "@id": "#ada", "name": "Ada", "worksFor": {"@id": "#tea"}}
TIMES = {"@type": "Organization", "@id": "#tea", "name": "Tea Times", "founder": {"@id": "#ada"}, "logo": {"@id": "#l"}}
ARTICLE = {"@type": "Article", "@id": "#a", "author": [{"@id": "#ada"}, {"@id": "#gone"}], "about": {"@id": "#a"}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("author.name", ["Ada"]),
        ("author[0].worksFor.name", ["Tea Times"]),
        ("author.worksFor.logo.url", ["/logo.png"]),
        ("author.worksFor.founder.name", []),  # a node is not put into itself
        ('author.worksFor.founder."@id"', ["#ada"]),
        ('author."@id"', ["#ada", "#gone"]),
        ('about."@id"', ["#a"]),
        ("about.author", []),
        ("publisher.founder.name", ["Ada"]),
        ("editor.name", ["The Times"]),  # another one, though its `@id` is the same
        ("editor.founder", []),
    ],
)
def test_references_of_json_ld_are_replaced_by_their_nodes(path: str, expected: list[str]) -> None:
    logo = {"@id": "#l", "@type": "ImageObject", "url": "/logo.png"}
    publisher = {"@id": "#tea", "@type": "Organization", "name": "Tea Times"}
    article = ARTICLE | {"publisher": publisher, "editor": publisher | {"name": "The Times"}}
    graph = {"@context": "https://schema.org", "@graph": [article, TIMES]}
    markup = ld(json.dumps(graph), json.dumps([ADA, {"x": {"y": [logo]}}]))
    assert value(markup, selector=f"jsonld: Article.{path}", all=True) == expected
    field = Field(
        name="f", selector=f"jmespath: {path}" if "author." not in path else f"jsonld: Article.{path}", all=True
    )
    (row,) = extract(DataDef(name="d", block="jsonld: Article", fields=(field,)), markup).rows
    assert row["f"] == expected, "in a block, too"
    assert value(markup, selector="jsonld: Person.name", all=True) == ["Ada"], "no object is there twice"
    escaped = markup.replace("@id", r"\u0040\u0069d")
    assert value(escaped, selector=f"jsonld: Article.{path}", all=True) == expected


def test_what_several_blocks_say_of_a_node_is_put_together() -> None:
    blocks = (
        {"@type": "Product", "name": "Kettle", "offers": {"@id": "#o"}},
        {"@id": "#o", "price": "39.90"},
        {"@id": "#o", "@type": "Offer", "price": "1", "priceCurrency": "USD"},
        {"@id": "#o", "@type": "Offer", "priceCurrency": "EUR"},
    )
    markup = ld(*map(json.dumps, blocks))
    offer = {"@id": "#o", "price": "39.90", "@type": "Offer", "priceCurrency": "EUR"}
    assert value(markup, selector="jsonld: Product.offers", type="json") == offer
    assert value(markup, selector="jsonld: Offer.price", all=True) == ["1"], "an object itself stays as it is"


def test_nodes_that_all_name_each_other_have_an_end() -> None:
    names = [f"#{number}" for number in range(40)]
    nodes = [{"@type": "T", "@id": name, "to": [{"@id": other} for other in names]} for name in names]
    chain = [{"@type": "C", "@id": f"c{number}", "n": {"@id": f"c{number + 1}"}} for number in range(3_000)]
    read = page(ld(json.dumps(nodes)))
    began = time.thread_time()
    found = RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector="jsonld: T", type="json"),)))
    assert len(found.extract(read, CONTEXT).rows[0]["f"]["to"]) == 40
    assert [*read.faults] == ["JSON-LD of more than 100,000 values: further references are not followed"]
    assert value(ld(json.dumps(chain)), selector="jsonld: C", type="json")["n"]["@id"] == "c1"
    assert time.thread_time() - began < 5.0


def test_a_broken_block_is_a_fault_of_the_page() -> None:
    broken = page(ld("{", TEA, "[") + "<p>{")
    fields = (Field(name="a", selector="jsonld: Product.name"), Field(name="b", selector="jmespath(p): x"))
    RecordExtractor(DataDef(name="d", fields=fields)).extract(broken, CONTEXT)
    assert [*broken.faults] == [
        "a block of JSON-LD is not JSON and was skipped", "what `p` selects is not JSON and was skipped"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        ("jsonld: Product", [("Tea", "19.90", "Tea"), ("Pot", "5", "Tea")]),
        ("jsonld: Product.offers", [(None, "19.90", "Tea"), (None, "5", "Tea"), (None, "4.50", "Tea")]),
        ("jsonld: Nothing", []),
        ("h1", [(None, None, "Tea")]),
    ],
)
def test_fields_of_a_block(block: str, rows: list[tuple[str | None, ...]]) -> None:
    fields = (
        Field(name="name", selector="jmespath: name"),
        Field(name="price", selector="jmespath: offers.price || offers[0].price || price"),
        Field(name="first", selector="jsonld: Product.name"),  # the whole page in each block
    )
    found = extract(DataDef(name="d", block=block, fields=fields), ld(TEA, POT)).rows
    assert [tuple(row.values()) for row in found] == rows


def test_embedded_json_is_read_inside_the_block() -> None:
    card = '<div class=card><script type=application/json>{{"n": {0}}}</script></div>'
    fields = (Field(name="n", selector="jmespath(script): n", type="int"), Field(name="h", selector="jmespath(h1): n"))
    for block in (".card", "xpath: //div"):
        rows = extract(DataDef(name="d", block=block, fields=fields), card.format(1) + card.format(2)).rows
        assert [dict(row) for row in rows] == [{"n": 1, "h": None}, {"n": 2, "h": None}]


def test_blocks_and_links_of_embedded_json() -> None:
    data_def = DataDef(
        name="d",
        block="jmespath(script#__NEXT_DATA__): props.items",
        fields=(Field(name="id", selector="jmespath: id", type="decimal"),),
        links=(
            Link(selector="jmespath(script): props.items[].url"),
            Link(selector="jsonld: BreadcrumbList.itemListElement.item", attribute="@id"),
        ),
    )
    found = extract(data_def, NEXT + ld(CRUMBS))
    assert [str(row["id"]) for row in found.rows] == ["1.0", "2"]
    assert [link.url.rpartition("/")[2] for link in found.links] == ["1", "a", "b"]


@pytest.mark.parametrize(
    ("kind", "text"), [("json", '{"@type": "Product", "name": "x"}'), ("xml", f"<a>{ld(TEA)}</a>")]
)
def test_other_documents_have_none(kind: Any, text: str) -> None:
    assert value(text, kind=kind, selector="jsonld: Product.name") is None
    assert value(text, kind=kind, selector="jmespath(script): name") is None


def test_a_page_is_parsed_once_for_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    read = json_ld.parse_embedded_json
    for module in (json_ld, documents):
        monkeypatch.setattr(module, "parse_embedded_json", lambda text: parsed.append(text) or read(text))
    names = [f"f{number}" for number in range(5)]
    fields = [Field(name=name, selector=f"jsonld: Product.{name}") for name in names]
    fields += [Field(name=f"{name}n", selector=f"jmespath(#__NEXT_DATA__): {name}") for name in names]
    extractor = RecordExtractor(DataDef(name="d", block="jsonld: Product", fields=tuple(fields)))
    extract_from = page(ld(TEA, POT, TEA) + NEXT)
    for _ in range(2):
        extractor.extract(extract_from, CONTEXT)
    assert len(parsed) == 3, "the block selects JSON, which holds no element"
    fields = [
        Field(name="a", selector="jmespath(#__NEXT_DATA__): a"),
        Field(name="b", selector="jmespath(#__NEXT_DATA__): b"),
    ]
    RecordExtractor(DataDef(name="d", fields=tuple(fields))).extract(extract_from, CONTEXT)
    assert len(parsed) == 4


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["Product", "#a"]),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["@type", "@graph", "@id", "a", "Product"]), inner)
        ),
    )
)
def test_any_json(written: Any) -> None:
    markup = ld(json.dumps(written).replace("<", "\\u003c"))
    for selector in ("jsonld: Product.a", "jsonld: Product.a[].a", "jmespath(script): a.a", "jsonld: Product"):
        found = extract(DataDef(name="d", fields=(Field(name="f", selector=selector, all=True),)), markup)
        assert not found.rejected


@pytest.mark.parametrize("piece", ["/*", "<!--", '"\\"', '"\\', "//", '",', "[,", "<!-- -->", ",  ", "/**"])
def test_broken_json_costs_no_more_than_its_length(piece: str) -> None:
    began = time.thread_time()
    json_ld.parse_embedded_json(piece * 100_000)
    assert time.thread_time() - began < 1.0
