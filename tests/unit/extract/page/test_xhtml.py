"""XHTML sent as XML is read as a browser reads it, although its parser is one of HTML."""

import time

import pytest

from crawl_engine.extract.page.xhtml import to_html
from crawl_engine.node.extraction.page_extraction import parse_page

PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/><style type="text/css"/></head>
<body><div class="x"/><textarea name='a>b'/><p>one<br/></p><p>two</p><p><![CDATA[a < b & c]]></p></body></html>"""


@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "text/xml", "application/xml; charset=utf-8"])
def test_elements_without_content_end_where_they_stand(content_type: str) -> None:
    page = parse_page(PAGE.encode(), content_type, url="http://h/", status=200, fetched_at=0.0)
    assert page.kind == "html"
    assert page.tree is not None
    assert [node.text() for node in page.tree.css("body > p")] == ["one", "two", "a < b & c"]
    assert page.tree.css_first("div.x").text() == ""


def test_as_html_the_same_page_is_read_as_html() -> None:
    page = parse_page(PAGE.encode(), "text/html", url="http://h/", status=200, fetched_at=0.0)
    assert page.tree is not None
    assert page.tree.css("body > p") == [], "the title never ends"


@pytest.mark.parametrize(
    ("markup", "written"),
    [
        ('<a href="x/"/>', '<a href="x/"></a>'),
        ("<img src='a'/><hr /><i />", "<img src='a'/><hr /><i></i>"),
        ("<!-- <i/> --><i/>", "<!-- <i/> --><i></i>"),
        ("<script>if (a<b) '<i/>'</script><i/>", "<script>if (a<b) '<i/>'</script><i></i>"),
        ('<script src="a"/><i/>', '<script src="a"></script><i></i>'),
        ("<p title='a/>b'>x</p><b/>", "<p title='a/>b'>x</p><b></b>"),
        ("<![CDATA[<i/>&]]><b/>", "&lt;i/&gt;&amp;<b></b>"),
        ("<svg:rect w='1'/>", "<svg:rect w='1'></svg:rect>"),
        ("<i / ><b/", "<i / ><b/"),
        ("<p>plain</p>", "<p>plain</p>"),
    ],
)
def test_each_kind_of_part(markup: str, written: str) -> None:
    assert to_html(markup.encode()).decode() == written


@pytest.mark.parametrize("part", ["<!--", "<![CDATA[", "<script>", "<a ", "<a b='", '<a "', "<a /", "/", "<i/>", "</"])
def test_the_time_is_linear(part: str) -> None:
    started_at = time.process_time()
    to_html((part * (2_000_000 // len(part))).encode() + b"/>")
    assert time.process_time() - started_at < 5
