"""NDJSON, CSV and feeds: what selectors see of them, and of those that are broken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.csv_table import read_csv
from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from crawl_engine.node.extraction.page_extraction import apply_data_defs, parse_page
from tests.unit.extract.pages import CONTEXT

LINE_FAULT = "a line is not JSON and was skipped"
CSV_FAULT = "a row of the CSV does not fit its header"


def document(body: bytes | str, content_type: str, url: str = "https://shop.example/list") -> Page:
    data = body.encode() if isinstance(body, str) else body
    return parse_page(data, content_type, url=url, status=200, fetched_at=0.0)


Found = tuple[list[tuple[Any, ...]], list[str]]


def rows(page: Page, block: str, *selectors: str, links: tuple[Link, ...] = ()) -> Found:
    """The values of each record, and the URLs of the links."""
    fields = tuple(Field(name=f"f{number}", selector=text) for number, text in enumerate(selectors))
    found = RecordExtractor(DataDef(name="d", block=block, fields=fields, links=links)).extract(page, CONTEXT)
    assert not found.rejected
    return [tuple(row.values()) for row in found.rows], [link.url for link in found.links]


@pytest.mark.parametrize(
    ("body", "expected", "faults"),
    [
        ('{"a": 19.90}\n{"a": "x"}\n', [("19.90",), ("x",)], []),
        ('\ufeff{"a": 1}\r\n\r\n  \r\n{"a": 2}', [("1",), ("2",)], []),
        ('{"a": 1}\n{"a": \n{"a": 3}\n', [("1",), ("3",)], [LINE_FAULT]),
        ('{"a": "x\u2028y"}', [("x y",)], []),
        ("[" * 100_000 + '\n{"a": 1}', [("1",)], [LINE_FAULT]),
        ('1\nnull\n"a"\n[]\n{"b": 1}', [(None,)] * 4, []),
        ('{"a": "\\ud800"}', [("\ufffd",)], []),
        ("no JSON\nat all", [], [LINE_FAULT]),
        ("", [], []),
        ("\n\n", [], []),
    ],
)
def test_ndjson(body: str, expected: list[tuple[Any, ...]], faults: list[str]) -> None:
    page = document(body, "application/x-ndjson")
    assert rows(page, "jmespath: @", "jmespath: a")[0] == expected
    assert [*page.faults] == faults


@pytest.mark.parametrize(
    ("body", "expected", "faults"),
    [
        ("a,b\n1,2\n3,4\n", [("1", "2"), ("3", "4")], []),
        ("a;b\r\n1,5;2\r\n3,5;4\r\n", [("1,5", "2"), ("3,5", "4")], []),
        ("a\tb\n1,2\t3\n", [("1,2", "3")], []),
        ("a|b\n1|2", [("1", "2")], []),
        ("sep=|\r\na|b;c;d\r\n1|2", [("1", None)], []),
        ("a;b;c\n1,2;3,4;5\n1,2;3,4;5", [("1,2", "3,4")] * 2, []),
        ("\ufeffa,b\r1,2\r", [("1", "2")], []),
        ("\n\n a , b \n\n1,2\n\n", [("1", "2")], []),
        ('"a","b"\n"x, ""y""\nz",2\n', [('x, "y" z', "2")], []),
        ("a,b\n1\n1,2,3\n1,2,\n", [("1", None), ("1", "2"), ("1", "2")], [CSV_FAULT]),
        ("a\n1\n2,3\n", [("1", None), ("2", None)], [CSV_FAULT]),
        ("b,a,a\n1,2,3\n", [("2", "1")], []),
        ("a,b\nx\0y,\0\n", [("x\ufffdy", "\ufffd")], []),
        ('a,b\n"1,2\n3,4\n', [("1,2 3,4", None)], [CSV_FAULT]),
        ("a,b\n" + '"' + "x" * 200_000 + "\n1,2\n", [("1", "2")], [CSV_FAULT]),
        ("a,b", [], []),
        (",\n1,2", [(None, None)], []),
        ("", [], []),
        ("\n \n", [], []),
    ],
)
def test_csv(body: str, expected: list[tuple[Any, ...]], faults: list[str]) -> None:
    page = document(body, "text/csv")
    assert rows(page, "jmespath: @", "jmespath: a", "jmespath: b")[0] == expected
    assert [*page.faults] == faults


def test_columns_are_found_by_number_where_they_have_no_name() -> None:
    assert read_csv("a,,a,column2\n1,2,3,4\n")[0] == [{"a": "1", "column2": "2", "column3": "3", "column4": "4"}]
    assert read_csv("column2,\n1,2\n")[0] == [{"column2": "1", "column2_": "2"}]
    assert read_csv("," * 20_000 + "\n1")[0] == []


def test_a_large_cell_is_one_cell() -> None:
    cell = "x,9\n" * 40_000
    assert read_csv(f'name,left\na,1\nb,"{cell}"\nc,3\n')[:2] == (
        [{"name": "a", "left": "1"}, {"name": "b", "left": cell}, {"name": "c", "left": "3"}], 0,
    )  # fmt: skip


def test_csv_in_another_encoding() -> None:
    assert rows(document("a;b\nTée;ü\n".encode("cp1252"), "text/csv"), "jmespath: @", "jmespath: a")[0] == [("Tée",)]
    assert rows(document("a;b\nTée;ü\n".encode("utf-16"), "text/csv"), "jmespath: @", "jmespath: a")[0] == [("Tée",)]


@given(
    st.text('ab,;|\t\n\r"\0 sep=', max_size=60),
    st.none() | st.integers(1, 9),
    st.sets(st.sampled_from(["a", "b", "ab", ""])),
)
def test_any_csv(text: str, line: int | None, wanted: set[str]) -> None:
    found, faulty, columns = read_csv(text, line, wanted)
    assert all(len(row) <= len(columns) for row in found)
    assert faulty >= 0


def test_a_general_type_is_read_by_the_extension() -> None:
    assert document('{"a": 1}\n{"a": 2}', "text/plain", "https://h/x.jsonl").kind == "ndjson"
    assert document("a,b", "application/octet-stream", "https://h/x.csv").kind == "csv"


RSS = """<?xml version="1.0"?><rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>https://shop.example/</link>
<item><title>A</title><link> https://shop.example/a </link><dc:creator>Ann</dc:creator></item>
<item><title>B</title><link/></item></channel></rss>"""
RSS_FOUND = ([("A", "Ann"), ("B", None)], ["a"])
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><id>https://shop.example/f</id>
<entry><title>A</title><id>https://shop.example/a</id><link href="/b"/></entry></feed>"""


@pytest.mark.parametrize(
    ("content_type", "body", "block", "link", "expected"),
    [
        ("application/rss+xml", RSS, "item", Link(selector="item link", attribute="text"), RSS_FOUND),
        ("", RSS, "item", Link(selector="item > link", attribute="text"), RSS_FOUND),
        ("application/atom+xml", ATOM, "entry", Link(selector="entry id", attribute="text"), ([("A", None)], ["a"])),
        ("text/xml", ATOM, "entry", Link(selector="entry link"), ([("A", None)], ["b"])),
    ],
)
def test_feeds(content_type: str, body: str, block: str, link: Link, expected: Any) -> None:
    found, urls = rows(document(body, content_type), block, "title", "creator", links=(link,))
    assert (found, [url.rpartition("/")[2] for url in urls]) == expected


@pytest.mark.parametrize(
    "content_type", ["text/html", "application/rss+xml", "text/csv", "application/jsonl", "text/xml"]
)
@pytest.mark.parametrize(
    "body",
    ["<!DOCTYPE html><html><body><h1>Error<p>item</html>", "<!doctype html><h1>Error", "", "<", "oops", "\0\0"],
)
def test_an_error_page_in_the_place_of_a_feed_has_no_rows(content_type: str, body: str) -> None:
    page = document(body, content_type)
    links = (Link(selector="item link", attribute="text"),)
    assert rows(page, "item", "title", links=links) == ([], [])
    if page.kind == "html":
        assert rows(page, "jmespath: @", "jmespath: a") == ([], [])


@pytest.mark.parametrize("text", ["{", "[" * 100_000, f"[{'9' * 5_000}]", ""], ids=["cut", "deep", "long", "none"])
def test_a_document_that_is_no_json_is_a_fault(text: str) -> None:
    document = Page(url="http://h/", text=text, kind="json", status=200, fetched_at=0)
    assert document.data is MISSING
    assert list(document.faults) == ["the document is not JSON, or beyond the limits of its parser"]
    good = Page(url="http://h/", text="null", kind="json", status=200, fetched_at=0)
    assert (good.data, good.faults) == (None, {})


ITEMS = '{"items": [{"name": "café", "id": 1}, {"name": "half \\ud83d", "id": 18446744073709551615}]}'


@pytest.mark.parametrize(
    ("content_type", "shown"),
    [
        ("text/html", "text/html"),
        ("text/html; charset=iso-8859-1", "text/html"),
        ("text/plain", "text/plain"),
        ("application/javascript", "application/javascript"),
        ("application/xml", "application/xml"),
        ("application/xhtml+xml", "application/xhtml+xml"),
        ("application/json", None),
        ("application/vnd.api+json", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("text", [ITEMS, f"\n \t{ITEMS}\n"])
def test_a_body_that_is_one_json_value_is_json_whatever_its_type(
    content_type: str, shown: str | None, text: str
) -> None:
    fields = tuple(Field(name=name, selector=f"jmespath: {name}") for name in ("name", "id"))
    extractor = RecordExtractor(DataDef(name="item", block="jmespath: items", fields=fields))
    for body in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16")):
        page = document(body, content_type)
        found = apply_data_defs(page, CONTEXT, [(extractor, True)], 100)
        assert page.kind == "json"
        assert found.rows == ((0, ('{"name":"café","id":"1"}', '{"name":"half \ufffd","id":"18446744073709551615"}')),)
        expected = f"item: pages are JSON, and their type is '{shown}'; they are read as JSON"
        assert [(one.code, one.text) for one in found.warnings] == ([("json-type", expected)] if shown else [])


@pytest.mark.parametrize(
    "body",
    [
        "{broken",
        "[1, 2",
        '{"a": 1}{"b": 2}',
        '{"a": 1} <p>',
        "{{ template }}",
        "[x] <b>y</b>",
        '"text"',
        "12",
        "[" * 9_000,
    ],
)
def test_other_bodies_stay_what_their_type_says(body: str) -> None:
    assert document(body, "text/html").kind == document(body, "text/plain").kind == "html"


RSS = "<rss version='2.0'><channel><item><title>café</title><link>http://h/1</link></item></channel></rss>"
RDF = f"<rdf:RDF xmlns:rdf='r' xmlns='http://purl.org/rss/1.0/'>{RSS[28:-16]}</rdf:RDF>"
NOTICE = "<br />\n<b>Notice</b>: Undefined index in <b>/srv/x.php</b> on line <b>3</b><br />\n"


@pytest.mark.parametrize(
    "text",
    [
        RSS,
        f"<?xml version='1.0'?>\n<!-- cached --><!DOCTYPE rss>\n{RSS}",
        f"\n\n {RDF}",
        f"{NOTICE}<?xml version='1.0' encoding='utf-8'?>\n{RSS}",
        f"Warning: mysql_connect()\n<?xml version='1.0'?>{RDF}",
        f"<?xml version='1.0'?><!-- {'x' * 6_000} > <html> --><?style a='b>c'?>{RSS}",
        f"<?xml version='1.0'?>\n<!DOCTYPE rss PUBLIC '-//N//DTD 0.91//EN' [<!-- don't --><!ENTITY a 'x>]y'>]>{RSS}",
        f"<!---->{RSS}",
        f"{NOTICE}<?xml version='1.0'?><!-- a --><!DOCTYPE rss [<!ENTITY a 'b'>]>{RSS}",
    ],
)
@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "text/plain", "application/rss+xml"])
def test_a_feed_is_xml_though_its_type_says_html(text: str, content_type: str) -> None:
    fields = tuple(Field(name=name, selector=name) for name in ("title", "link"))
    extractor = RecordExtractor(DataDef(name="item", block="item", fields=fields))
    page = document(text.encode(), content_type)
    found = apply_data_defs(page, CONTEXT, [(extractor, True)], 100)
    assert found.rows == ((0, ('{"title":"café","link":"http://h/1"}',)),)
    if "html" in content_type:
        expected = "item: pages are XML, and their type is 'text/html'; they are read as XML"
        assert [(one.code, one.text) for one in found.warnings] == [("xml-type", expected)]


def test_what_is_not_utf_8_as_said_is_a_warning() -> None:
    body = "<meta charset=latin1><h1>" + "é" * 20
    extractor = RecordExtractor(DataDef(name="item", fields=(Field(name="title", selector="h1"),)))
    page = document(body.encode() + b"\xff", "text/html")
    found = apply_data_defs(page, CONTEXT, [(extractor, True)], 100)
    assert found.rows == ((0, (f'{{"title":"{"é" * 20}\ufffd"}}',)),)
    text = "item: pages are said to be windows-1252, and are UTF-8 with damaged bytes, which are replaced"
    assert ([(one.code, one.text) for one in found.warnings], found.damaged) == ([("wrong-encoding", text)], 1)
    assert not apply_data_defs(document(body.encode(), "text/html"), CONTEXT, [(extractor, True)], 100).warnings


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><p>&lt;rss&gt;</p>",
        f"<html><body><pre><?xml version='1.0'?>{RSS}</pre>",
        f"<!doctype html><script>var x = \"<?xml version='1.0'?>{RSS}\"</script>",
        "<rssfeed>x</rssfeed>",
        "<p>a feed: <rss>",
        "<!-- <rss> -->",
        "",
    ],
)
def test_a_page_about_feeds_stays_html(text: str) -> None:
    assert document(text.encode(), "text/html").kind == "html"
