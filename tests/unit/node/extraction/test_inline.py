"""Which pages a node extracts on its fetch loop: none that may hold up the loop for long."""

import contextlib
from typing import Any

import pytest

from engine.extract.context import Context
from engine.extract.cost import Cost
from engine.extract.patterns import OutOfTime
from engine.extract.records import RecordExtractor
from engine.model.definition import DataDef, Field
from engine.model.link import Link, NextPage, RequestTemplate
from engine.node.extraction.inline import INLINE_SECONDS, is_plain, may_be_inline
from engine.node.extraction.page_extraction import UnsupportedContent, apply_data_defs, parse_page
from tests.pdf_documents import pdf

CONTEXT = Context(
    group="g", locator="l", locator_url="http://h.example/", depth=0, run="r", run_time="2026-01-01T00:00:00Z"
)
STORM = " ".join(f"a{number}" for number in range(8_000))
QUOTED = " ".join(f"a{number}='>'" for number in range(4_000))
SPREAD = " ".join(f"a{number}" if number % 500 else 'a=">"' for number in range(9_000))
DEEP = "<title>first</title>" + "<div>" * 180 + "a<p>" * 15_000
SLOW = "xpath: //*[normalize-space(.) = 'x']"
LONG_URLS = f"<base href='/{'a' * 4_000}/'><p>{'>'.join(['a,' * 1_000] * 20)}"
NESTED = (Field(name="g", selector="b"),)
SEARCHES = tuple((f"v{number}", "xpath: //*[normalize-space(.) = 'first' or . = 'x']") for number in range(20))
CURSORS = RequestTemplate(url="/?" + "".join(f"%{{v{number}}}" for number in range(20)))
FORMATTING = "".join(f"<b id={number}>" for number in range(1_400))


def extractor(selector: str | None, block: str | None = None, match: str | None = None) -> RecordExtractor:
    return RecordExtractor(DataDef(name="d", block=block, fields=(Field(name="f", selector=selector, match=match),)))


def is_inline(body: str, content_type: str = "text/html", selector: str = "b") -> bool:
    data = body.encode()
    if not may_be_inline(data, content_type):
        return False
    page, _ = parse_page(data, content_type, url="http://h.example/", status=200, fetched_at=0.0)
    return is_plain(page, data, [extractor(selector)])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (f"<p {STORM}>x</p>", "text/html"),
        (f"<p {QUOTED}>x</p>", "text/html"),
        (f"<p {QUOTED}/>", "application/xml"),
        (f"<p {SPREAD}>x</p>", "text/html"),
        (f"<p {SPREAD.replace(' ', '/')}>x</p>", "text/html"),
        (f"<p>{FORMATTING}{'<div>x</div>' * 700}", "text/html"),  # a million elements of 22 KB
        (f"<p>{'<i><b><u>' * 14}{'<p>x' * 15_000}", "text/html"),
        (f"[{'1,' * 30_000}1]", "application/json"),
        ("[1]\n" * 9_000, "application/x-ndjson"),
        ("a;b\n" * 9_000, "text/csv"),
    ],
)
def test_storms_go_to_an_extraction_process(body: str, content_type: str) -> None:
    assert len(body) < 64 * 1024
    assert not is_inline(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<li class=a><a href=/x>x</a> <b>y</b></li>" * 600, "text/html"),
        (f"<p>{'word ' * 700}</p>" * 10, "text/html"),
        (f"[{'1,' * 3_000}1]", "application/json"),
        ('{"a": 1}\n' * 3_000, "application/x-ndjson"),
        ("a;b\n" * 3_000, "text/csv"),
        ("<r>" + "<a b='c'>x</a>" * 900, "application/xml"),
    ],
)
def test_usual_pages_are_inline(body: str, content_type: str) -> None:
    assert is_inline(body, content_type)


@pytest.mark.parametrize(
    "content_type", ["application/pdf", "Application/PDF; x=y", "application/octet-stream", "image/png", ""]
)
def test_a_pdf_is_never_inline(content_type: str) -> None:
    assert not may_be_inline(pdf(["x"]), content_type)


def test_a_pdf_is_not_read_where_it_could_crash_a_node() -> None:
    for content_type in ("application/pdf", "text/plain; charset=utf-16", "text/html"):
        url = "http://h.example/x.csv"
        with contextlib.suppress(UnsupportedContent):
            page, _ = parse_page(pdf(["x"]) + b"\0", content_type, url=url, status=200, fetched_at=0.0)
            assert "<section" not in page.text


@pytest.mark.parametrize("selector", ["jsonld: A.b", "jmespath(script): a"])
def test_much_json_inside_a_page_matters_where_it_is_read(selector: str) -> None:
    body = "<script type=application/ld+json>[" + '">",' * 9_000 + "1]</script>"
    assert is_inline(body)
    assert not is_inline(body, selector=selector)
    assert is_inline(body[:9_000], selector=selector)


@pytest.mark.parametrize("selector", ["div b", "div > b", "xpath: //b"])
def test_depth_matters_where_a_search_depends_on_it(selector: str) -> None:
    assert is_inline("<div>" * 150, selector=selector)
    assert not is_inline("<div>" * 300, selector=selector)
    assert is_inline("<div>" * 300, selector="b, b.x:nth-child(2)")


@pytest.mark.parametrize(
    "selector", ["li:has(b)", "p:has(~ p:has(u))", "xpath: //tr[../tr[../tr = 1]]", "xpath: //td[/html/a[/html/b]]"]
)
def test_nested_searches_are_inline_on_small_pages_only(selector: str) -> None:
    assert extractor(selector).cost is Cost.CUBE
    assert is_inline("<p>x</p>" * 40, selector=selector)
    assert not is_inline("<p>x</p>" * 200, selector=selector)


@pytest.mark.parametrize("selector", ["p ~ p", "p:nth-child(2)", "xpath: //p/following::p"])
def test_costly_searches_are_inline_on_smaller_pages_of_xml(selector: str) -> None:
    for count, in_html, in_xml in ((400, True, True), (1_000, True, False), (2_100, False, False)):
        body = "<p>x</p>" * (count // 2)
        assert is_inline(body, selector=selector) is in_html
        assert is_inline(f"<r>{body}</r>", "application/xml", selector) is in_xml


@pytest.mark.parametrize(
    ("inner", "inline"),
    [
        ("<item><title>x</title><link/></item>" * 1_500, True),
        ("<a>" * 10 + "</a>" * 10 + "<b/>" * 900, True),
        ("<a>" * 20 + "</a>" * 20 + "<b/>" * 900, False),
    ],
    ids=["feed", "10 levels", "20 levels"],
)
def test_xml_is_inline_unless_it_is_deep(inner: str, inline: bool) -> None:
    assert is_inline(f"<r>{inner}</r>", "application/xml") is inline


def test_paths_from_the_root_in_a_predicate_cost_a_square() -> None:
    assert extractor("xpath: //td[. = /html/body/p]").cost is Cost.SQUARE
    assert extractor("xpath: /html/body/p[b/i = 1]").cost is Cost.LINEAR


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        ("//li", Cost.LINEAR), (".//li", Cost.LINEAR), ("//ul/li/a", Cost.LINEAR), ("//li | //dd", Cost.SQUARE),
        ("//div//li", Cost.SQUARE), ("/html//li", Cost.SQUARE), ("//li | //ul//dd", Cost.CUBE),
        ("//ul[@id]//li", Cost.SQUARE), ("//div//div//li", Cost.CUBE), ("//td[../@class = 'x']", Cost.SQUARE),
        ("//td[contains(normalize-space(..), 'x')]", Cost.CUBE), ("//td[.. = 'x']", Cost.CUBE),
        ("//td[contains(string( ancestor::table), 'x')]", Cost.CUBE), ("//td[not(ancestor::table)]", Cost.SQUARE),
    ],
)  # fmt: skip
def test_a_path_below_a_path_costs_a_square(path: str, cost: Cost) -> None:
    """libxml2 compares what it finds below each element with all that it has: 64 kB took 20 s on the fetch loop."""
    assert extractor(f"xpath: {path}").cost is cost


def test_a_page_of_many_matches_below_many_levels_goes_to_an_extraction_process() -> None:
    body = "<div>" * 180 + "<li>" * 15_000
    assert is_inline(body, selector="xpath: //li")
    assert not is_inline(body, selector="xpath: //div//li")


@pytest.mark.parametrize(
    "body", ["<q>" * 9_990 + "<hr>" * 8_000, "<div>" * 9_000 + "</p>" * 4_000, "<span>" * 7_000 + "<hr>" * 5_000]
)
def test_tags_that_search_thousands_of_open_ones_go_to_an_extraction_process(body: str) -> None:
    assert len(body) < 64 * 1024
    assert not is_inline(body, selector="p")


def test_letters_are_replaced_inline_on_small_pages_only() -> None:
    selector = "xpath: //*[contains(translate(., 'ABC', 'abc'), 'x')]"
    assert is_inline("<p>x</p>" * 40, selector=selector)
    assert not is_inline(f"<p>{'word ' * 2_000}</p>", selector=selector)


@pytest.mark.parametrize(
    ("parts", "flat"),
    [
        ({"fields": (Field(name="f", selector="b"), Field(name="g", value="x"))}, True),
        ({"fields": (Field(name="f", selector="b", all=True),), "links": (Link(selector="a[href]"),)}, True),
        ({"fields": (Field(name="f", selector="b", attribute="html"),)}, False),
        ({"fields": (Field(name="f", selector="b", fields=(Field(name="g", selector="i"),)),)}, False),
        ({"block": "div", "fields": (Field(name="f", selector="b"),)}, False),
        ({"fields": (Field(name="f", selector="b"),), "links": (Link(selector="nav a"),)}, False),
    ],
)
def test_one_search_of_one_compound_is_flat(parts: dict[str, Any], flat: bool) -> None:
    assert RecordExtractor(DataDef(name="d", **parts)).is_flat == flat


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
    data = body.encode()
    assert may_be_inline(data, "text/html")
    page, _ = parse_page(data, "text/html", url="http://h.example/", status=200, fetched_at=0.0)
    assert is_plain(page, data, [given])
    with pytest.raises(OutOfTime):
        apply_data_defs(page, CONTEXT, [(given, True)], 100, patience=INLINE_SECONDS)
