"""Too deeply nested documents are rejected before parsing; long ones are not."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from engine.extract.markup import Markup
from engine.extract.nesting_guard import MAX_OPEN_TAGS, exceeds_depth, nests_too_deep, reopens_too_many
from engine.extract.page import Page, PageTooDeep
from engine.extract.tree_shape import TreeShape


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
    ],
)
def test_disguised_depth_is_detected(page: bytes) -> None:
    assert nests_too_deep(Markup(page))


def test_end_tags_without_a_start_tag_may_hide_depth_from_the_quick_check_alone() -> None:
    """Such a page costs its extraction process the CPU limit; where it is small, the bound is exact."""
    page = b"<div></nothing>" * 20_000
    assert not nests_too_deep(Markup(page))
    assert exceeds_depth(page, MAX_OPEN_TAGS)


_NAMES = """
    div span p li ul dd dt dl table tr td th tbody caption select option optgroup b i a font em svg g math mi br img
    button form h1 section template ruby rt x foreignObject
"""
TAG_NAMES = _NAMES.split()
tags = st.one_of(
    st.sampled_from([f"<{name}>" for name in TAG_NAMES]),
    st.sampled_from([f"</{name}>" for name in TAG_NAMES]),
    st.builds("<{} id={}>".format, st.sampled_from(["b", "i", "font", "a"]), st.integers(0, 9)),
    st.sampled_from(["<svg/>", "<g/>", "<mi/>", "<DIV>", "text"]),
)


@settings(max_examples=300)
@given(st.lists(tags, max_size=12), st.lists(tags, max_size=12), st.integers(1, 60), st.integers(5, 60))
@example(["<table><tr><td><p>"], [], 40, 60)
@example(["<li><dd>"], [], 40, 60)
@example(["<b id=1><b id=2>"], ["</p><div>"], 20, 20)
@example([], ["<div>", "<div>", "</optgroup>", "<optgroup>"], 4, 13)
def test_no_tree_is_deeper_than_the_bound(first: list[str], then: list[str], times: int, depth: int) -> None:
    markup = "".join(first) * times + "".join(then) * times
    if TreeShape(LexborHTMLParser(markup)).is_deeper(depth):
        assert exceeds_depth(markup.encode(), depth)


@pytest.mark.parametrize(
    ("markup", "deep"),
    [
        (b"<p>" * 197, False),
        (b"<div>" * 20 + b"<p>text</p>" * 5_000, False),
        (b"<table>" + b"<tr><td><a href=x>y</a></td></tr>" * 5_000, False),
        (b"<ul>" + b"<li>text" * 5_000, False),
        (b"<div>" * 201, True),
        (b"<DIV></nothing>" * 201, True),
    ],
)
def test_a_depth_is_exceeded(markup: bytes, deep: bool) -> None:
    assert exceeds_depth(markup, 200) is deep


def test_the_scan_itself_is_bounded() -> None:
    start = time.process_time()
    nests_too_deep(Markup(b"<span><div>" + b"<x>" * 9_000 + b"<i></i>" * 10_000 + b"</span>" * 200_000))
    nests_too_deep(Markup(b"<a" * 1_000_000))
    nests_too_deep(Markup(b"<a " + b"/" * 3_000_000 + b"<b>" * 20_000))
    assert time.process_time() - start < 10


@pytest.mark.parametrize("attribute", ["tree", "element"])
def test_a_deep_page_is_rejected_on_first_access(attribute: str) -> None:
    page = Page(url="http://h/", text="<DIV>" * 100_000, kind="html", status=200, fetched_at=0)
    start = time.process_time()
    with pytest.raises(PageTooDeep, match="http://h/ nests more than 10,000 open tags"):
        getattr(page, attribute)
    assert time.process_time() - start < 1


def bomb(size: int, closing: str = "") -> str:
    return "<p>" + "".join(f"<b id={number}>{closing}" for number in range(size)) + "</p>" + "<div>x</div>" * size


@pytest.mark.parametrize("attribute", ["tree", "element"])
def test_a_page_of_unclosed_formatting_is_rejected(attribute: str) -> None:
    page = Page(url="http://h/", text=bomb(2_000), kind="html", status=200, fetched_at=0)
    start = time.process_time()
    with pytest.raises(PageTooDeep, match="http://h/ leaves so many formatting tags open"):
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
