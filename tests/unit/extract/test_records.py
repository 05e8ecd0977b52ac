"""Records of a page: blocks, filters, rejections, and robustness against any page and pattern."""

import time
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawl_engine.extract.page import reading
from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, FilterRule
from crawl_engine.model.link import Link
from crawl_engine.model.record import RecordCounts, to_text
from crawl_engine.model.stored_form import SourcePosition
from tests.process.stopwatch import Stopwatch
from tests.unit.extract.pages import CONTEXT, extract, link_to, page

BOOKS = """
<article class="product_pod"><h3><a href="/catalogue/a.html" title="A Light">A..</a></h3>
  <p class="price_color">£51.77</p><p class="availability">In stock</p><i class=tag>x</i><i class=tag>y</i></article>
<article class="product_pod"><h3><a href="b.html" title="B">B</a></h3><p class="price_color">£0.00</p></article>
<article class="product_pod"><h3><a href="c.html">C</a></h3><p class="price_color">£5</p></article>
<article class="product_pod"><h3><a href="d.html" title="D">D</a></h3><p class="price_color">£1.5.2</p></article>
<ul><li class="next"><a href="page-2.html">next</a></li></ul>
"""
BOOK = DataDef(
    name="book",
    block="article.product_pod",
    fields=(
        Field(name="title", selector="h3 a", attribute="title", required=True, place=SourcePosition("b.yml", 3, 5)),
        Field(
            name="price", selector=".price_color", match="[0-9.]+", type="decimal", place=SourcePosition("b.yml", 4, 5)
        ),
        Field(name="stock", selector=".availability", type="bool", match="In stock", default=False, has_default=True),
        Field(name="tags", selector=".tag", all=True),
        Field(name="url", selector="h3 a", attribute="href", type="url"),
        Field(name="page", value="%{document.url}"),
    ),
    filters=(FilterRule(field="price", pattern=r"0\.00"),),
    links=(
        Link(selector="li.next a", group="books"),
        Link(selector="h3 a", group="detail", allow=("/catalogue/",), deny=("/c\\.html",), priority=5),
    ),
)


def test_a_shop_page() -> None:
    extraction = extract(BOOK, BOOKS)
    assert extraction.data_def == "book"
    assert extraction.rows == (
        {
            "title": "A Light",
            "price": Decimal("51.77"),
            "stock": True,
            "tags": ["x", "y"],
            "url": "https://shop.example/catalogue/a.html",
            "page": "https://shop.example/catalogue/page-1.html",
        },
    )
    assert extraction.counts.filtered == 1
    assert [(r.data_def, r.field, r.place) for r in extraction.rejected] == [
        ("book", "title", "b.yml:3:5"),
        ("book", "price", "b.yml:4:5"),
    ]
    assert "'1.5.2' is not a number" in extraction.rejected[1].reason
    assert extraction.links == (
        link_to("https://shop.example/catalogue/page-2.html", "books", 0, None),
        link_to("https://shop.example/catalogue/a.html", "detail", 5, None),
        link_to("https://shop.example/catalogue/b.html", "detail", 5, None),
        link_to("https://shop.example/catalogue/d.html", "detail", 5, None),
    )


def test_columns_are_in_written_order() -> None:
    assert tuple(extract(BOOK, BOOKS).rows[0]) == BOOK.columns


def test_without_block_a_page_is_one_record_even_if_empty() -> None:
    data_def = DataDef(name="d", fields=(Field(name="a", selector="i"), Field(name="b", selector="u", all=True)))
    assert extract(data_def, "").rows == ({"a": None, "b": []},)
    assert extract(data_def, "", kind="json").rows == ({"a": None, "b": []},)


def test_a_block_is_a_record_even_if_empty() -> None:
    data_def = DataDef(name="d", block="li", fields=(Field(name="a", selector="i"),))
    assert extract(data_def, "<li></li><li><i>x</i></li>").rows == ({"a": None}, {"a": "x"})
    assert extract(data_def, "<p>").rows == ()


def test_nested_blocks_are_one_record_each() -> None:
    data_def = DataDef(name="d", block="div, .b", fields=(Field(name="id", attribute="id"),))
    extraction = extract(data_def, "<div id=1 class=b><div id=2></div></div><p class=b id=3>")
    assert [row["id"] for row in extraction.rows] == ["1", "2", "3"]


def test_without_fields_there_are_no_rows() -> None:
    extraction = extract(DataDef(name="d", links=(Link(selector="a"),)), "<a href=x>")
    assert extraction.rows == ()
    assert len(extraction.links) == 1


@pytest.mark.parametrize(
    ("field", "pattern", "dropped"),
    [
        (Field(name="f", selector="p"), "abc", True),
        (Field(name="f", selector="p"), "b", False),
        (Field(name="f", selector="p"), "a.*", True),
        (Field(name="f", selector="u"), "", True),
        (Field(name="f", selector="u"), ".+", False),
        (Field(name="f", selector="p", type="bool", match="a"), "true", True),
        (Field(name="f", selector="i", all=True), r"1\|2", True),
        (Field(name="f", selector="i", all=True, join=";"), "1;2", True),
        (Field(name="f", selector="b", type="decimal"), r"1\.50", True),
        (Field(name="f", selector="b", type="float"), r"1\.5", True),
    ],
)
def test_filters_match_the_whole_text(field: Field, pattern: str, dropped: bool) -> None:
    data_def = DataDef(name="d", fields=(field,), filters=(FilterRule(field="f", pattern=pattern),))
    extraction = extract(data_def, "<p>abc</p><i>1</i><i>2</i><b>1.50</b>")
    assert (extraction.counts.filtered, len(extraction.rows)) == ((1, 0) if dropped else (0, 1))


SLOW = r"(?:a|aa)+$"
SLOW_TEXT = "a" * 80 + "b"


def test_a_slow_pattern_rejects_records_and_takes_at_most_a_second() -> None:
    data_def = DataDef(name="d", block="p", fields=(Field(name="f", match=SLOW),))
    watch = Stopwatch()
    extraction = extract(data_def, f"<p>{SLOW_TEXT}</p>" * 50 + "<p>a</p>")
    assert watch.seconds() < 3
    assert len(extraction.rejected) == 51
    assert "did not finish within 0.5 s" in extraction.rejected[0].reason
    assert "took more than 1 s on this page" in extraction.rejected[-1].reason


def test_a_slow_filter_rejects_with_the_place_of_the_filter() -> None:
    filters = (FilterRule(field="f", pattern=SLOW, place=SourcePosition("d.yml", 9, 1)),)
    (rejection,) = extract(
        DataDef(name="d", fields=(Field(name="f", selector="p"),), filters=filters), f"<p>{SLOW_TEXT}</p>"
    ).rejected
    assert rejection.reason.startswith("filter: ")
    assert rejection.place == "d.yml:9:1"


def test_a_slow_link_pattern_follows_nothing_and_is_reported() -> None:
    extraction = extract(DataDef(name="d", links=(Link(selector="a", deny=(SLOW,)),)), f"<a href={SLOW_TEXT}>")
    assert extraction.links == ()
    assert [r.field for r in extraction.rejected] == ["links"]


def test_invalid_definitions_reject_and_do_not_raise() -> None:
    data_def = DataDef(name="d", block="p[", fields=(Field(name="f"),), place=SourcePosition("d.yml", 2, 3))
    (rejection,) = extract(data_def, "<p>").rejected
    assert (rejection.field, rejection.place) == ("", "d.yml:2:3")
    assert "query.block" in rejection.reason
    assert extract(DataDef(name="d", links=(Link(selector="a["),)), "<a href=x>").rejected
    broken = DataDef(name="d", fields=(Field(name="f"),), filters=(FilterRule(field="f", pattern="("),))
    assert extract(broken, "<p>").rejected


def test_time_and_length_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = "<div>" * 9_000 + "x" * 20_000
    data_def = DataDef(name="d", block="div", fields=(Field(name="f", selector="p div.x b"), Field(name="g")))
    start = time.thread_time()
    with pytest.raises(OutOfTime):
        extract(data_def, nested, patience=1.0)
    assert time.thread_time() - start < 20
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 100_000)
    with pytest.raises(PageTooCostly, match="100,000 characters"):
        extract(DataDef(name="d", block="div", fields=(Field(name="g"),)), nested)


EVERYTHING = DataDef(
    name="all",
    block="*",
    fields=(
        Field(name="text"),
        Field(name="own", selector="p b", attribute="ownText"),
        Field(name="html", selector="div > *", attribute="outerHtml", all=True),
        Field(name="path", selector="xpath://a/@href | //b", all=True),
        Field(name="url", selector="a", attribute="href", type="url", default="", has_default=True),
        Field(name="nest", selector="div", fields=(Field(name="n", selector=":not(p b)"),)),
    ),
    links=(Link(selector="a", same_host=False), Link(selector="xpath://a/@href"), Link(selector="p b a")),
)
PATHS = DataDef(
    name="paths",
    block="xpath://*",
    fields=(Field(name="css", selector="div p, b"), Field(name="text"), Field(name="html", attribute="html")),
)
JSONS = DataDef(
    name="json",
    block="jmespath:@",
    fields=(Field(name="a", selector="jmespath:a"), Field(name="b", type="json"), Field(name="c", selector="p")),
    links=(Link(selector="jmespath:a"),),
)
EXTRACTORS = tuple(map(RecordExtractor, (EVERYTHING, PATHS, JSONS, BOOK)))

TAGS = "<p> </p> </div> <b> </b> x> '#y?z'> <table> <td> <svg> <script> </script> <!-- -->"
MORE = "<template> &#xD800; &amp é <select><option> <title> <math> <frameset> <![CDATA[ <?xml <html>"
ODD = ["<a href=", "<div class=x>", "<base href=//>", "<a", "\0", "\x1f", "\ud800", " "]
pieces = st.sampled_from([*f"{TAGS} {MORE} <body> nofollow".split(), *ODD])
markup = st.lists(pieces | st.text(max_size=5), max_size=25).map("".join)


@settings(max_examples=150)
@given(markup | st.text(st.characters()), st.sampled_from(["html", "xml", "json"]))
@example("<A\x1f<p>", "html")
def test_no_page_breaks_extraction(text: str, kind: str) -> None:
    for extractor in EXTRACTORS:
        extraction = extractor.extract(page(text, kind=kind), CONTEXT)  # type: ignore[arg-type]
        for row in extraction.rows:
            for item in row.values():
                to_text(item).encode("utf-8")
        for link in extraction.links:
            assert link.url.startswith("http")


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_no_bytes_break_extraction(raw: bytes) -> None:
    for errors in ("replace", "surrogateescape"):
        for extractor in EXTRACTORS:
            extractor.extract(page(raw.decode("utf-8", errors)), CONTEXT)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(json_values)
def test_no_json_breaks_extraction(given_value: object) -> None:
    import json

    for extractor in EXTRACTORS:
        extraction = extractor.extract(page(json.dumps(given_value), kind="json"), CONTEXT)
        for row in extraction.rows:
            for item in row.values():
                to_text(item).encode("utf-8")


def test_missing_fields_are_counted_before_their_default_and_in_rejected_records_too() -> None:
    data_def = DataDef(
        name="d",
        block="li",
        fields=(
            Field(name="title", selector="b"),
            Field(name="price", selector="i", required=True),
            Field(name="note", selector="u", default="none", has_default=True),
            Field(name="tags", selector="s", all=True),
            Field(name="kind", value="book"),
            Field(name="sizes", selector="em", fields=(Field(name="width", selector="q"),)),
        ),
        filters=(FilterRule(field="title", pattern="gone"),),
    )
    items = "<li><b>a</b><i>1</i><u>n</u><s>t</s><em></em><li><i>2</i><u></u><li><u>no price</u><li><b>gone</b><i>3</i>"
    extraction = extract(data_def, items)
    assert (len(extraction.rows), len(extraction.rejected), extraction.counts.filtered) == (2, 1, 1)
    assert extraction.counts == RecordCounts(
        records=3, rejected=1, missing=(("title", 2), ("price", 1), ("note", 1), ("tags", 2), ("sizes", 2)), filtered=1
    )
    assert extraction.rows[1]["note"] == "none"


def test_fields_after_a_rejection_are_counted_whatever_their_names() -> None:
    data_def = DataDef(
        name="d",
        fields=(
            Field(name="size.width", selector="i", required=True),
            Field(name="sizes", selector="em", fields=(Field(name="width", selector="q", required=True),)),
            Field(name="note", selector="u"),
        ),
    )
    assert extract(data_def, "<em></em>").counts == RecordCounts(
        records=1, rejected=1, missing=(("size.width", 1), ("sizes", 0), ("note", 1))
    )
    assert extract(data_def, "<i>1</i><em></em><u>n</u>").counts == RecordCounts(
        records=1, rejected=1, missing=(("size.width", 0), ("sizes", 0), ("note", 0))
    )
