"""Which pages a node extracts on its fetch loop: none that may hold up the loop for more than 0.5 s."""

import contextlib
import itertools
import string
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.axis import Axis, AxisTable
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link, NextPage, RequestTemplate
from crawl_engine.node.extraction.inline import INLINE_SECONDS, MAX_INLINE_BYTES, MAX_TAG_BYTES, is_plain, may_be_inline
from crawl_engine.node.extraction.page_extraction import NeedsProcess, UnsupportedContent, apply_data_defs, parse_page
from tests.pdf_documents import pdf

CONTEXT = Context(
    group="g", locator="l", locator_url="http://h.example/", depth=0, run="r", run_time="2026-01-01T00:00:00Z"
)
DEEP = "<title>first</title>" + "<div>" * 180 + "a<p>" * 15_000
SLOW = "xpath: //*[normalize-space(.) = 'x']"
LONG_URLS = f"<base href='/{'a' * 4_000}/'><p>{'>'.join(['a,' * 1_000] * 20)}"
NESTED = (Field(name="g", selector="b"),)
SEARCHES = tuple((f"v{number}", "xpath: //*[normalize-space(.) = 'first' or . = 'x']") for number in range(20))
CURSORS = RequestTemplate(url="/?" + "".join(f"%{{v{number}}}" for number in range(20)))
FORMATTING = "".join(f"<b id={number}>" for number in range(1_400))
LOOP_SECONDS = 0.5


def extractor(selector: str | None, block: str | None = None, match: str | None = None) -> RecordExtractor:
    return RecordExtractor(DataDef(name="d", block=block, fields=(Field(name="f", selector=selector, match=match),)))


def is_inline(body: str, content_type: str = "text/html", selector: str = "b") -> bool:
    data = body.encode()
    if not may_be_inline(data, content_type):
        return False
    page = parse_page(data, content_type, url="http://h.example/", status=200, fetched_at=0.0)
    return is_plain(page, data, [extractor(selector).speed])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("x" * (MAX_INLINE_BYTES + 1), "text/html"),
        ("<p>" + "x" * 100_000, "text/html"),  # no tag ends
        ("<p>x" * 10 + f"<p {'a ' * 20_000}>" + "<p>x" * 15_000, "text/html"),
        ("<p a='" + "b> " * 30_000 + "'>", "text/html"),
        ('<p a = "' + "b> c='d' " * 10_000 + '">', "text/html"),
        ("<p a=" + " " * 20 + "'" + "b> " * 30_000 + "'>", "text/html"),
        ("<body>" * 2 + "<p>xxxxxxxxxxx" * 5_000, "text/html"),
        ("<p>" * 8_001, "text/html"),
        (f"<p>{FORMATTING}{'<div>x</div>' * 700}", "text/html"),  # a million elements of 22 KB
        ("<r><a>x</a></r>", "application/xml"),
        (f"[{'1,' * 8_000}1]", "application/json"),
        ("[1]\n" * 4_001, "application/x-ndjson"),
        ("a;b\n" * 4_001, "text/csv"),
    ],
)
def test_storms_and_xml_go_to_an_extraction_process(body: str, content_type: str) -> None:
    assert not is_inline(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<li class=a><a href=/x>x</a> <b>y</b></li>" * 600, "text/html"),
        (f"<p>{'word ' * 700}</p>" * 10, "text/html"),
        ("<p><i class=icon></i> <b>x</b></p>" * 166, "text/html"),
        ("<html><body>" + '<li class=\'a\'><a href="/x">don\'t</a> x > y <img alt=""></li>\n' * 1_500, "text/html"),
        (f"<p>{'word ' * 900}</p>" * 48, "text/html"),
        (f"[{'1,' * 3_000}1]", "application/json"),
        ('{"a": 1}\n' * 3_000, "application/x-ndjson"),
        ("a;b\n" * 3_000, "text/csv"),
    ],
)
def test_usual_pages_are_inline(body: str, content_type: str) -> None:
    assert is_inline(body, content_type)


@pytest.mark.parametrize(
    "content_type", ["application/pdf", "Application/PDF; x=y", "application/octet-stream", "image/png", ""]
)
def test_a_pdf_is_never_inline(content_type: str) -> None:
    with pytest.raises(NeedsProcess):
        parse_page(pdf(["x"]), content_type, url="http://h.example/", status=200, fetched_at=0.0)


def test_a_pdf_is_not_read_where_it_could_crash_a_node() -> None:
    for content_type in ("application/pdf", "text/plain; charset=utf-16", "text/html"):
        url = "http://h.example/x.csv"
        with contextlib.suppress(UnsupportedContent):
            page = parse_page(pdf(["x"]) + b"\0", content_type, url=url, status=200, fetched_at=0.0)
            assert "<section" not in page.text


@pytest.mark.parametrize("selector", ["b", "ul > b", "b + b", "p, b:first-child", "p b", "table td b", "p:not(.a) b"])
def test_searches_of_each_element_are_inline(selector: str) -> None:
    assert is_inline("<p><b>x</b></p>" * 1_000, selector=selector)


@pytest.mark.parametrize(
    "selector",
    ["li:has(b)", "li:nth-child(2)", "p:last-of-type", "h2 ~ p", "p:is(.a)", "p:not(a b)", "a b p i", "xpath: //b"],
)
def test_searches_that_may_be_long_go_to_an_extraction_process(selector: str) -> None:
    assert not is_inline("<b>x</b>", selector=selector)


@pytest.mark.parametrize("selector", ["jsonld: A.b", "jmespath(script): a"])
def test_much_json_inside_a_page_matters_where_it_is_read(selector: str) -> None:
    body = "<script type=application/ld+json>[" + '">",' * 9_000 + "1]</script>"
    assert is_inline(body)
    assert not is_inline(body, selector=selector)
    assert is_inline(body[:9_000], selector=selector)


def test_all_selectors_of_a_data_def_count() -> None:
    slow = "b:nth-child(2)"
    for parts in (
        {"block": slow, "fields": (Field(name="f", selector="a"),)},
        {"fields": (Field(name="f", selector="li", fields=(Field(name="i", selector=slow),)),)},
        {"fields": (Field(name="f", selector=slow, scope="page"),)},
        {"fields": (Field(name="f", selector=f"jmespath({slow}): a"),)},
        {"links": (Link(selector="a"), Link(selector=slow))},
        {"next": NextPage(request=RequestTemplate(url="/%{v}"), variables=(("v", slow),))},
        {"links": (Link(selector="form", request=RequestTemplate()),)},
        {"axis": AxisTable(block="table", items=(Axis(name="item", selector="td"),))},
    ):
        given = RecordExtractor(DataDef(name="d", **parts))  # type: ignore[arg-type]
        page = parse_page(b"<b>", "text/html", url="http://h.example/", status=200, fetched_at=0.0)
        assert not is_plain(page, b"<b>", [given.speed]), parts


def test_depth_matters_where_a_search_looks_at_ancestors() -> None:
    for levels, inline in ((30, True), (31, False)):  # and `html`, `body`
        body = "<div>" * levels + "<b>x</b>"
        assert is_inline(body, selector="div > b")
        assert is_inline(body, selector="div b") is inline


def names() -> Iterator[str]:
    letters, characters = string.ascii_lowercase, string.ascii_lowercase + string.digits
    for length in range(4):
        yield from map("".join, itertools.product(letters, *[characters] * length))


def attributes(size: int) -> str:
    """As many different ones as fit into so many bytes."""
    written, left = [], size
    for name in names():
        left -= len(name) + 1
        if left < 0:
            return " ".join(written)
        written.append(name)
    raise AssertionError


def long_tags(size: int) -> str:
    """As long ones as fit into so many bytes: each reaches from the beginning of a part to the end of the next."""
    part = MAX_TAG_BYTES**2 // (2 * size)
    tag = f"><p {attributes(2 * part - 5)}".ljust(2 * part - 1) + ">"
    return (tag * (size // len(tag))).ljust(size, ">")


def fields(*selectors: str, **options: object) -> tuple[Field, ...]:
    return tuple(Field(name=f"f{at}", selector=text, **options) for at, text in enumerate(selectors))  # type: ignore[arg-type]


PLAIN = {"fields": fields("b")}
ANCESTORS = {"fields": fields(*["span div div"] * 20)}
BLOCKS = {"block": "p", "fields": fields(*[f".a{number} b" for number in range(20)])}
NESTED_BLOCKS = {"block": "div", "fields": fields(*[f".a{number}" for number in range(20)], "i")}
MARKUP = {"block": "div", "fields": (Field(name="f", attribute="outerHtml"), Field(name="g"))}
TABLES = {"fields": (Field(name="f", selector="table", type="table", all=True),) * 20}
CANDIDATES = {
    "fields": (Field(name="f", selector="img", attribute="srcset", all=True),) * 20,
    "links": (Link(selector="img", attribute="srcset"),),
}
WORST: dict[str, tuple[str, dict[str, object]]] = {
    "attributes": (f"<p {attributes(MAX_TAG_BYTES - 100)}><b>x", PLAIN),
    "attributes in quotes": ("<p a='>' " + attributes(MAX_TAG_BYTES - 9_000).replace(" k", " k='>' k"), PLAIN),
    "attributes of many tags": (long_tags(MAX_INLINE_BYTES), PLAIN),
    "attributes of the root": (f"<html {attributes(19_000)}><body {attributes(19_000)}>" + "<p>x" * 2_000, PLAIN),
    "nested div": ("<div>" * 8_000, PLAIN),
    "nested div, searched": ("<div>" * 8_000, {"fields": fields(*["p > div"] * 20)}),
    "nested div, read": ("<div>a" * 8_000, MARKUP),
    "unclosed tags": ("<q>" * 4_000 + "<hr>" * 4_000, PLAIN),
    "end tags": ("<div>" * 4_000 + "</p>" * 4_000, PLAIN),
    "foreign end tags": ("<svg>" + "<g>" * 3_999 + "</q>" * 4_000, PLAIN),
    "formatting": ("<p>" + "".join(f"<b id={number}>" for number in range(62)) + "</p>" + "<p>x" * 3_900, PLAIN),
    "formatting, half": ("<p>" + "".join(f"<b id={number}>" for number in range(498)) + "</p>" + "<p>x" * 498, PLAIN),
    "plain formatting": ("<p>" + "<b><i><u><s><em><tt><big><code><font><small>" * 3 + "<p>x" * 7_900, PLAIN),
    "adoption": ("<b>" * 4_000 + "<div>" * 2_000 + "</b>" * 2_000, PLAIN),
    "ancestors": ("<div>" * 29 + "<p>" * 7_900, {"fields": fields("span div p")}),
    "ancestors of blocks": ("<div>" * 28 + "<p><b>x</b></p>" * 1_990, ANCESTORS),
    "blocks": ("<p><b>x</b></p>" * 1_990, BLOCKS),
    "nested blocks": ("<div>" * 4_000 + "<i></i>" * 2_000, NESTED_BLOCKS),
    "nested fields": (
        "<ul><li><b>x</b>" * 2_000,
        {"fields": (Field(name="f", selector="li", fields=(Field(name="g", selector="li", fields=fields("i")),)),)},
    ),
    "siblings": ("<p>x" * 8_000, {"fields": fields(*["i + p + p"] * 20)}),
    "links": ("<a href=?1>" * 5_400, {"links": (Link(selector="p > a"),) * 20}),
    "wide cells": ("<table><tr>" + "<td colspan=1000>" * 3_400, TABLES),
    "rows of cells": ("<table>" + "<tr><td rowspan=0>x" * 3_000, TABLES),
    "equal headings": ("<table><tr>" + "<th>x" * 7_900, TABLES),
    "nested tables": ("<table><tr><td>" * 2_600, TABLES),
    "rows that meet spans": ("<table><tr>" + "<td rowspan=2>" * 4_000, {"block": "tr", "fields": fields("td")}),
    "candidates": (f"<img srcset='{'a 1x,' * 9_900}'>", CANDIDATES),
    "candidates of many": (f"<img srcset='{'a 1x,' * 980}'>x" * 49, CANDIDATES),
    "text": ("<p>" + "&amp;" * 9_900, {"fields": fields("p", match="a+b")}),
    "texts": (f"<p>{'&amp;' * 980}</p>" * 49, {"fields": fields("p", match="a+b")}),
    "pattern": (f"<b>{'a' * 49_000}!</b>", {"fields": fields("b", match="^(a|aa)+$")}),
    "pattern, long": (f"{'a' * 4_900}<br>" * 49, {"fields": fields("body", match="^(a|aa)+$")}),
    "text in pieces": ("<p>" + f"{'x' * 25}</x>" * 7_900, {"fields": fields(*["p"] * 20)}),
    "text before a table": ("<table>" + f"{'x' * 25}<tr>" * 7_900, {"fields": fields(*["body"] * 20)}),
}


@pytest.mark.parametrize("kind", WORST)
def test_the_worst_page_of_each_kind_holds_the_loop_half_a_second_at_most(kind: str) -> None:
    body, parts = WORST[kind]
    assert lets_loop_go_on(body, "text/html", RecordExtractor(DataDef(name="d", **parts)))  # type: ignore[arg-type]


def lets_loop_go_on(body: str, content_type: str, given: RecordExtractor) -> bool:
    """Whether the page holds the loop for so long at most, once of three: another process may disturb a measurement."""
    data = body.encode()
    assert may_be_inline(data, content_type)

    def extract() -> float:
        started = time.thread_time()
        page = parse_page(data, content_type, url="http://h.example/", status=200, fetched_at=0.0)
        assert is_plain(page, data, [given.speed])
        with contextlib.suppress(OutOfTime):
            apply_data_defs(page, CONTEXT, [(given, True)], 50_000, patience=INLINE_SECONDS)
        del page  # frees its tree
        return time.thread_time() - started

    return any(extract() <= LOOP_SECONDS for _ in range(3))


@pytest.mark.parametrize(
    ("body", "content_type", "selector"),
    [
        ("[" + "1," * 5_990 + "1]", "application/json", "jmespath: [?@ == `2`]"),
        ("[" * 6_000 + "]" * 6_000, "application/json", "jmespath: a.b"),
        ("a;b\n" * 3_000, "text/csv", "jmespath: [*].a"),
        ("[1]\n" * 3_000, "application/x-ndjson", "jmespath: [*][0]"),
        (f"<script>[{'1,' * 5_990}1]</script>", "text/html", "jmespath(script): [?@ == `2`]"),
        ("<script type=application/ld+json>[" + "{}," * 2_900 + "1]</script>", "text/html", "jsonld: A.b"),
    ],
)
def test_json_and_csv_hold_the_loop_half_a_second_at_most(body: str, content_type: str, selector: str) -> None:
    given = RecordExtractor(DataDef(name="d", fields=fields(*[selector] * 20)))
    assert lets_loop_go_on(body, content_type, given)


@pytest.mark.parametrize(
    ("given", "body"),
    [
        (extractor(None, block="div"), "<div>" * 190 + "<i></i>" * 7_500),
        (extractor("div", block="xpath: //div"), "<div>" * 190 + "<i></i>" * 7_500),
        (extractor("b", match="^(a|aa)+$"), f"<b>{'a' * 60}!</b>"),
        (RecordExtractor(DataDef(name="d", fields=tuple(Field(name=f"f{n}", selector=SLOW) for n in range(20)))), DEEP),
        (RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector=SLOW, all=True),) * 20)), DEEP),
        (RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector=SLOW, split=","),) * 20)), DEEP),
        (RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector=SLOW, fields=NESTED),) * 20)), DEEP),
        (RecordExtractor(DataDef(name="d", fields=(Field(name="f", selector="p", split=",", type="url"),))), LONG_URLS),
        (RecordExtractor(DataDef(name="d", links=(Link(selector="div", attribute="text"),))), DEEP),
        (RecordExtractor(DataDef(name="d", links=(Link(selector=SLOW),) * 20)), DEEP),
        (RecordExtractor(DataDef(name="d", next=NextPage(request=CURSORS, variables=SEARCHES))), DEEP),
        (
            RecordExtractor(
                DataDef(name="d", block="div", next=NextPage(request=CURSORS, variables=(), until_empty=True))
            ),
            DEEP,
        ),
    ],
)
def test_extraction_stops_when_the_caller_cannot_wait(given: RecordExtractor, body: str) -> None:
    page = parse_page(body.encode(), "text/html", url="http://h.example/", status=200, fetched_at=0.0)
    with pytest.raises(OutOfTime):
        apply_data_defs(page, replace(CONTEXT, rules={"series": ""}), [(given, True)], 100, patience=INLINE_SECONDS)
