"""Too deeply nested documents are rejected before parsing; long ones are not."""

import time

import pytest

from engine.extract.markup import Markup
from engine.extract.nesting_guard import MAX_OPEN_TAGS, nests_too_deep, reopens_too_many
from engine.extract.page import Page, PageTooCostly


def test_the_limit_is_exact() -> None:
    assert not nests_too_deep(Markup(b"<div>" * MAX_OPEN_TAGS))
    assert nests_too_deep(Markup(b"<div>" * (MAX_OPEN_TAGS + 1)))


@pytest.mark.parametrize(
    "page",
    [
        b"<p>text" * 30_000,
        b"<br><hr><img src=x><input>" * 20_000,
        b"<ul>" + b"<li>item" * 30_000,
        b"<table>" + b"<tr><td>a<td>b" * 20_000,
        b"<dl>" + b"<dt>a<dd>b" * 20_000,
        b"<div><span>a</span></div>" * 40_000,
        b"<div><b>a</div>" * 40_000,
        b"<div>" * 9_000 + b"</div>" * 9_000 + b"<div>" * 9_000,
        b"<svg>" + b'<path d="m"/>' * 40_000 + b"</svg>",
        b"<!-- x -->" * 40_000,
        b"a < b " * 40_000,
        b"</div>" * 40_000,
        b"<a href=/x>x" * 30_000,
        b"<h1>x" * 15_000 + b"<h2>x" * 15_000,
        b"<h1><a href=/x>x</a>" * 15_000,
        b"<button>x" * 30_000,
        b"<div><select><option>x</div>" * 15_000,
        b"<select>" * 30_000,
        b"<form>" * 30_000,
        b"<form><input></form>" * 15_000,
        b"<svg><path></svg>" + b"<table>" + b"<tr><td>a<td>b<input>" * 20_000,
        b"<svg><title>x</title><g><path></g></svg><a href=/x>" * 20_000,
        b"<svg><g><p>" + b"<td>" * 30_000,
        b"<math><mi>x</mi></math><br><td>" * 30_000,
    ],
)
def test_long_pages_are_not_deep(page: bytes) -> None:
    assert not nests_too_deep(Markup(page))


@pytest.mark.parametrize(
    "page",
    [
        b"<div/>" * 20_000,
        b"<span><div></span>" * 20_000,
        b"<div a='<>'>" * 20_000,
        b"<svg></svg>" + b"<div/>" * 20_000,
        b"<p><div>" * 20_000,
        b"<table><tr><td>" * 11_000,
        b"</div>" * 50_000 + b"<div>" * 20_000,
        b"<li><dd>" * 20_000,
        b"<svg/>" + b"<g/>" * 20_000,
        b"<svg><p>" + b"<g/>" * 20_000,
        b"<svg><foreignobject><p>" + b"<g/>" * 20_000,
        b"<dd><li><dt><li>" * 20_000,
        b"<svg>" + b"<a>" * 20_000,
        b"<svg><desc></desc>" + b"<a>" * 20_000,
        b"<math><title>" + b"<td>" * 20_000,
        b"<math><annotation-xml>" + b"<a>" * 20_000,
        b"<math><annotation-xml encoding=text/html><div>" * 11_000,
        b"<h1><b><h1>" * 20_000,
        b"<option><h1>" * 20_000,
        b"<button><object>" * 20_000,
        b"<form><div></form>" * 20_000,
        b"<template>" + b"<form>" * 20_000,
        b"<svg><foreignobject>" * 20_000,
        b"<svg><font>" + b"<td>" * 20_000,
    ],
)
def test_disguised_depth_is_detected(page: bytes) -> None:
    assert nests_too_deep(Markup(page))


def test_end_tags_without_a_start_tag_may_hide_depth_from_the_quick_check() -> None:
    """Such a page costs its extraction process the CPU limit; where it is small, the shape of its tree is exact."""
    assert not nests_too_deep(Markup(b"<div></nothing>" * 20_000))


def test_the_scan_itself_is_bounded() -> None:
    start = time.process_time()
    nests_too_deep(Markup(b"<span><div>" + b"<x>" * 9_000 + b"<i></i>" * 10_000 + b"</span>" * 200_000))
    foreign = b"<svg><q><foreignobject><div><svg>" + b"<g>" * 9_000 + b"</q>" * 200_000
    nests_too_deep(Markup(b"<input>" * 2_000 + foreign))
    nests_too_deep(Markup(b"<a" * 1_000_000))
    nests_too_deep(Markup(b"<a " + b"/" * 3_000_000 + b"<b>" * 20_000))
    assert time.process_time() - start < 10


@pytest.mark.parametrize("attribute", ["tree", "element"])
def test_a_deep_page_is_rejected_on_first_access(attribute: str) -> None:
    page = Page(url="http://h/", text="<DIV>" * 100_000, kind="html", status=200, fetched_at=0)
    start = time.process_time()
    with pytest.raises(PageTooCostly, match="http://h/ nests more than 10,000 open tags"):
        getattr(page, attribute)
    assert time.process_time() - start < 1


def bomb(size: int, closing: str = "") -> str:
    return "<p>" + "".join(f"<b id={number}>{closing}" for number in range(size)) + "</p>" + "<div>x</div>" * size


@pytest.mark.parametrize("attribute", ["tree", "element"])
def test_a_page_of_unclosed_formatting_is_rejected(attribute: str) -> None:
    page = Page(url="http://h/", text=bomb(2_000), kind="html", status=200, fetched_at=0)
    start = time.process_time()
    with pytest.raises(PageTooCostly, match="http://h/ leaves so many formatting tags open"):
        getattr(page, attribute)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        bomb(5_000, "</b>"),
        bomb(200),
        "<b>same" * 5_000 + "<p>x" * 5_000,
        '<font color="red">a</font><br>' * 20_000,
        '<p><i class="fa"></i><p>' * 20_000,
        "<blockquote><img src=x><section>" + "<span id=x>y</span>" * 20_000,
    ],
)
def test_a_page_with_much_formatting_is_accepted(text: str) -> None:
    assert not reopens_too_many(Markup(text.encode()))


@pytest.mark.parametrize(
    "inner",
    ["<a/><b/>" * 60_000, "<item><b/><i x='1'/></item>" * 9_000, "<div>" * 200 + "</div>" * 200],
    ids=["closed", "formatting", "200 levels"],
)
def test_rules_of_html_do_not_count_for_xml(inner: str) -> None:
    page = Page(url="http://h/", text=f"<r>{inner}</r>", kind="xml", status=200, fetched_at=0)
    assert page.element is not None
    assert len(list(page.element.iter())) == 1 + inner.count("<") - inner.count("</")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<a>" * 900_000, "Excessive depth in document: 256"),
        ("<r>" + "<a>" * 300 + "</a>" * 300 + "</r>", "Excessive depth in document: 256"),
        (f"<r><a>{'x' * 11_000_000}</a><b/></r>", "Resource limit exceeded: Text node too long"),
    ],
    ids=["open", "closed", "text"],
)
def test_xml_that_its_parser_would_cut_is_rejected(text: str, problem: str) -> None:
    page = Page(url="http://h/", text=text, kind="xml", status=200, fetched_at=0)
    with pytest.raises(PageTooCostly, match=f"http://h/ is beyond a limit of the XML parser: {problem}"):
        _ = page.element


@pytest.mark.parametrize(("levels", "is_cut"), [(2_000, False), (2_100, True)])
def test_a_page_that_xpath_cannot_read_to_its_depth_says_so(levels: int, is_cut: bool) -> None:
    page = Page(url="http://h/", text="<div>" * levels + "<b>x</b>", kind="html", status=200, fetched_at=0)
    assert page.element is not None
    assert len(list(page.element.iter("b"))) == (0 if is_cut else 1)
    assert any("XPath reads a part of the page alone: Excessive depth" in fault for fault in page.faults) is is_cut
