"""CSS on XML and feeds: parsed as XML, matched by local name."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from crawl_engine.extract.documents.xpath import parse_markup
from crawl_engine.extract.select import xml_css
from crawl_engine.extract.select.xml_css import XmlCssExpression
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from tests.unit.extract.pages import extract, value

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:media="http://search.yahoo.com/mrss/">
<channel><title>News</title><link>https://shop.example/</link>
<item><title>One &amp; only</title><link>https://shop.example/1</link><pubDate>Mon</pubDate>
  <dc:creator>Ann</dc:creator><description><![CDATA[<p>Bold <b>words</b></p>]]></description>
  <media:thumbnail url="/1.png"/></item>
<item id="second" class="hot new"><title>Two</title><link>https://shop.example/2</link><pubDate>Tue</pubDate>
  <dc:creator>Bob</dc:creator><category/><category term="x"/></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xmlns:xlink="http://www.w3.org/1999/xlink"><title>News</title>
<link href="/self" rel="self"/><entry><title>A</title><link href="/a" rel="alternate"/></entry>
<entry><title>B</title><link href="/b" rel="alternate nofollow" xlink:href="/x"/></entry></feed>"""


@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        ("item > link", ["https://shop.example/1", "https://shop.example/2"]),
        ("item title", ["One & only", "Two"]),
        ("pubDate", ["Mon", "Tue"]),
        ("pubdate", []),
        ("creator", ["Ann", "Bob"]),
        (r"dc\:creator", ["Ann", "Bob"]),
        ("dc|creator", ["Ann", "Bob"]),
        ("item:nth-of-type(2) title", ["Two"]),
        ("item:first-of-type title", ["One & only"]),
        ("item:last-child pubDate", ["Tue"]),
        ("item + item title", ["Two"]),
        ("title ~ pubDate", ["Mon", "Tue"]),
        ("title + link", ["https://shop.example/", "https://shop.example/1", "https://shop.example/2"]),
        ("#second title, item.hot creator", ["Two", "Bob"]),
        ("item:not(.new) title", ["One & only"]),
        ("item:not(:has(category)) title", ["One & only"]),
        ("link:not(item link)", ["https://shop.example/"]),
        (":is(item > title, channel > title)", ["News", "One & only", "Two"]),
        (":is(creator, pubDate)", ["Mon", "Ann", "Tue", "Bob"]),
        ("description", ["<p>Bold <b>words</b></p>"]),
        ("item b", []),
    ],
)
def test_selectors_on_a_feed(selector: str, texts: list[str]) -> None:
    assert value(RSS, kind="xml", selector=selector, all=True) == texts
    assert value(RSS, kind="xml", selector=selector) == (texts[0] if texts else None)


def test_attributes_by_local_name() -> None:
    assert value(RSS, kind="xml", selector="thumbnail[url]", attribute="url") == "/1.png"
    assert value(RSS, kind="xml", selector="category[term=x]", attribute="term") == "x"
    assert value(RSS, kind="xml", selector="category[TERM]", attribute="term") is None
    assert value(RSS, kind="xml", selector="[term='X' i]", attribute="term") == "x"
    assert value(ATOM, kind="xml", selector="entry:nth-child(4) link", attribute="xlink:href") == "/b"
    linked = '<a xmlns:xlink="http://www.w3.org/1999/xlink"><b xlink:href="/x"/></a>'
    assert value(linked, kind="xml", selector="b[href^='/']", attribute="href") == "/x"


def test_fields_of_a_block_are_its_descendants() -> None:
    data_def = DataDef(
        name="d",
        block="item",
        fields=(
            Field(name="title", selector="title"),
            Field(name="nested", selector="channel title"),
            Field(name="own", selector="item > title"),
            Field(name="item", selector="item"),
            Field(name="by", selector="xpath://*[local-name()='creator']"),
            Field(name="sibling", selector="item + item"),
        ),
    )
    rows = extract(data_def, RSS, kind="xml").rows
    assert [dict(row) for row in rows] == [
        {"title": "One & only", "nested": None, "own": "One & only", "item": None, "by": "Ann", "sibling": None},
        {"title": "Two", "nested": None, "own": "Two", "item": None, "by": "Bob", "sibling": None},
    ]


def test_markup_of_xml_is_xml() -> None:
    assert value("<a><link>x</link><br/></a>", kind="xml", selector="a", attribute="html") == "<link>x</link><br/>"
    assert value("<a><b/></a>", kind="xml", block="a", selector="b", attribute="outerHtml") == "<b/>"


def test_links_of_feeds_are_followed() -> None:
    def urls(text: str, **link: object) -> list[str]:
        data_def = DataDef(name="d", links=(Link(**link),))  # type: ignore[arg-type]
        return [found.url for found in extract(data_def, text, kind="xml").links]

    assert urls(ATOM, selector="entry link") == ["https://shop.example/a"], "the other says nofollow"
    assert urls(RSS, selector="item > link", attribute="text") == ["https://shop.example/1", "https://shop.example/2"]


def test_malformed_xml_is_read_as_far_as_it_goes() -> None:
    assert value("<r><i>a</i><i>b & c</i><i>d", kind="xml", selector="i", all=True) == ["a", "b & c", "d"]


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("caf&eacute;&nbsp;&amp;&lt;b&gt;", "caf\xe9 &<b>"),
        ("AT&T; &amp; R & D &lt; &#38;&apos;", "AT&T; & R & D < &'"),
        ("&LT;&AMP; <![CDATA[&nbsp; & ]]>&amp;", "<& &nbsp; & &"),
        ("<!-- &eacute; -->&eacute;<!-- x", "\xe9"),
        ("a<b>&amp;</c>&lt;", "a&<"),
        ("<?php if (a & b) <!-- ?>x&nbsp;y &amp; z", "x y & z"),
    ],
)
def test_references_of_a_malformed_document_are_characters(inner: str, text: str) -> None:
    assert value(f"<r><i>{inner}</i></r>", kind="xml", selector="i") == text


def test_an_entity_of_html_is_a_character_where_it_is_declared_too() -> None:
    start = '<!DOCTYPE r [<!ENTITY nbsp "&#160;"><!ENTITY own "x">]>'
    assert value(f"{start}<r><i>a&nbsp;b&own;&amp;</i></r>", kind="xml", selector="i") == "a b&"
    xhtml = '<!DOCTYPE r PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://127.0.0.1:9/x.dtd">'
    assert value(f"{xhtml}<r><i k='&eacute;'>&eacute;</i></r>", kind="xml", selector="i[k=é]") == "\xe9"


def test_an_undeclared_prefix_is_no_part_of_the_local_name() -> None:
    text = "<!-- <rss> --><rss><dc:creator>Ann</dc:creator><a xlink:href='/x'/>&eacute;</rss>"
    for selector in ("creator", r"dc\:creator", "xpath://*[local-name()='creator']", "xpath://*[name()='dc:creator']"):
        assert value(text, kind="xml", selector=selector) == "Ann"
    for name in ("href", "xlink:href"):
        assert value(text, kind="xml", selector="a[href]", attribute=name) == "/x"
    assert value("<rdf:RDF><a>x</a></rdf:RDF>", kind="xml", selector="RDF > a") == "x"
    for root in ('<feed xmlns="http://www.w3.org/2005/Atom">', '<a:feed xmlns:a="u">'):
        end = "</" + root[1:].partition(" ")[0] + ">"
        assert value(f"{root}<media:thumb>x</media:thumb>{end}", kind="xml", selector="thumb") == "x"


def test_no_entity_is_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    text = f'<!DOCTYPE r [<!ENTITY x SYSTEM "{secret.as_uri()}"><!ENTITY y "aaaa">]><r><i>-&x;-&y;-</i></r>'
    assert value(text, kind="xml", selector="i") == "---"


@pytest.mark.parametrize("selector", ["a:hover", "a:checked", "a:nth-child(2 of b)", "a:not(b c)", "a:lang(de)", "::x"])
def test_a_selector_without_a_meaning_for_xml_does_no_harm(selector: str) -> None:
    root = parse_markup(b"<r><a/></r>", xml=True)
    assert root is not None
    assert isinstance(XmlCssExpression(selector).find(root, block=False), list)


@given(st.text(max_size=20), st.text("<>/ab='\"&;![]-", max_size=40))
def test_any_selector_on_any_xml(selector: str, text: str) -> None:
    root = parse_markup(text.encode("utf-8", "replace"), xml=True)
    if root is not None:
        XmlCssExpression(selector).find(root, block=True)


_COMPOUNDS = st.one_of(
    st.sampled_from(("a", "b", "c", "*", "a[k=x]", "[k=y]", "c:not(a)", "a:is(a,b)")),
    st.sampled_from(("b:first-child", "b:last-child", "b:empty", "a:nth-child(2)", "a:nth-of-type(2)")),
    st.sampled_from(("a:has(b)", "a:has(> b)", "a:has(b c)", "b:has(+ c)", "c:has(b c > a)")),
)
_STEPS = st.tuples(st.sampled_from([" ", " > ", " + ", " ~ "]), _COMPOUNDS)
_ELEMENTS = st.recursive(
    st.just(""),
    lambda inner: st.lists(
        st.builds("<{0} k='{1}'>{2}</{0}>".format, st.sampled_from("abc"), st.sampled_from("xy"), inner), max_size=4
    ).map("".join),
    max_leaves=30,
)


@given(_ELEMENTS, _COMPOUNDS, st.lists(_STEPS, min_size=1, max_size=3))
def test_a_walk_from_the_right_finds_the_same(inner: str, first: str, steps: list[tuple[str, str]]) -> None:
    root = parse_markup(f"<a>{inner}</a>".encode(), xml=True)
    assert root is not None
    selector = first + "".join([combinator + compound for combinator, compound in steps])
    # the library walks from left to right: the time is the square of the matches, and the result the same
    forward = etree.XPath(xml_css._LocalNameTranslator().css_to_xpath(selector), regexp=False, smart_strings=False)
    assert XmlCssExpression(selector).find(root, block=False) == forward(root)


_DEEP = "<r>" + "<i>" * 100 + "<a/>" * 500 + "</i>" * 100 + "</r>"
_WIDE = "<r>" + "<a/>" * 20_000 + "</r>"


@pytest.mark.parametrize(
    ("document", "selector"),
    [
        (_DEEP, "x " + "i " * 12 + "a"),
        (_DEEP, "x > i " + "i > i " * 6 + "a"),
        (_DEEP, "r:is(x) i i i i i a"),
        (_WIDE, "x + " + "a + " * 12 + "a"),
        (_WIDE, "a:first-child + a:last-child"),
        (_WIDE, "a:only-child"),
    ],
)
def test_the_time_of_a_combinator_is_no_power(document: str, selector: str) -> None:
    root = parse_markup(document.encode(), xml=True)
    assert root is not None
    start = time.process_time()
    assert XmlCssExpression(selector).find(root, block=False) == []
    assert time.process_time() - start < 1, "0.05 s, but minutes for a power, and several seconds for the square"
