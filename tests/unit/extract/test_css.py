"""CSS selectors are scoped to a block, and take time bounded by nodes × depth."""

import time

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.extract.css import CssExpression
from engine.extract.css_syntax import SelectorList, add_universal, parse_selector
from engine.extract.tree_shape import TreeShape

TRAP = """
<div class="outer x" id="o"><section id="s">
  <article id="b" class="x"><p class="x" id="p1">one<b class="y" id="b1">two</b></p><i id="i1">k</i></article>
  <article id="b2"><p class="x" id="p2">z</p></article>
</section><p id="after" class="x">out</p></div>
"""


def ids(nodes: list[LexborNode]) -> list[str | None]:
    return [node.id for node in nodes]


@pytest.mark.parametrize(
    ("selector", "inside"),
    [
        ("p", ["p1"]),
        (".x", ["p1"]),
        ("div.outer .x", []),
        ("section p", []),
        ("section > article > p", []),
        ("div.outer p, i", ["i1"]),
        ("article p", ["p1"]),
        ("article > p", ["p1"]),
        ("article", []),
        ("article article", []),
        (".x .x", ["p1"]),
        (".x .y", ["b1"]),
        (".x .x .y", ["b1"]),
        (".x .x .x .y", []),
        ("p + i", ["i1"]),
        ("p ~ i", ["i1"]),
        ("article p + i", ["i1"]),
        ("i, b, p", ["p1", "b1", "i1"]),
        ("p, .x, [id]", ["p1", "b1", "i1"]),
        ("*", ["p1", "b1", "i1"]),
        (":is(div p)", []),
        (":is(div p, article i)", ["i1"]),
        ("p:not(div p)", ["p1"]),
        ("p:not(article p)", []),
        (":where(article > p) b", ["b1"]),
        ("p:has(b)", ["p1"]),
        ("p:has(> i)", []),
        ("html p", []),
        ("b:first-child", ["b1"]),
        ("p:nth-child(2n + 1)", ["p1"]),
        ('[id="p1"] b', ["b1"]),
    ],
)
def test_a_selector_is_scoped_to_its_block(selector: str, inside: list[str]) -> None:
    tree = LexborHTMLParser(TRAP)
    block = tree.css_first("#b")
    assert block is not None
    before = tree.html
    nodes = CssExpression(selector).find_in_block(block, TreeShape(tree))
    assert ids(nodes) == inside
    first = CssExpression(selector).find_first_in_block(block, TreeShape(tree))
    assert (None if first is None else first.id) == (inside[0] if inside else None)
    assert tree.html == before


def test_the_parser_itself_is_not_scoped() -> None:
    """If this fails, the stepwise evaluation is no longer needed."""
    block = LexborHTMLParser(TRAP).css_first("#b")
    assert block is not None
    assert ids(block.css("div.outer .x")) == ["b", "p1"]


def test_matches_on_a_page_are_unique_and_in_document_order() -> None:
    tree = LexborHTMLParser(TRAP)
    assert ids(CssExpression("p, .x, #i1").find_on_page(tree, TreeShape(tree))) == ["o", "b", "p1", "i1", "p2", "after"]
    assert ids(CssExpression("div section article p, i").find_on_page(tree, TreeShape(tree))) == ["p1", "i1", "p2"]
    assert CssExpression("div section article p").find_first_on_page(tree, TreeShape(tree)) is not None
    assert CssExpression("div section article table").find_first_on_page(tree, TreeShape(tree)) is None


@pytest.mark.parametrize("selector", ["", "p[", "::x", "p:contains(a)", "> p", "p >", "a,,b", "p\ud800", ":scope p"])
def test_invalid_selectors_are_rejected(selector: str) -> None:
    with pytest.raises(ValueError):
        CssExpression(selector)


@pytest.mark.parametrize("text", ["(", "a)", '"', "[x='", "a /* c */ b", "a > > b", ",", "a ("])
def test_unbalanced_selectors_are_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        parse_selector(text)


def test_selectors_are_split_at_combinators_only() -> None:
    def shape(selector_list: SelectorList) -> list[list[str]]:
        return [
            [step.combinator + "".join(map(str, step.parts)) for step in steps] for steps in selector_list.alternatives
        ]

    assert shape(parse_selector("a>b  c + d~e")) == [["a", ">b", " c", "+d", "~e"]]
    assert shape(parse_selector('a[x="p > q, r"] , b\\,c')) == [['a[x="p > q, r"]'], ["b\\,c"]]
    assert shape(parse_selector("a:has(> b c):nth-child(2n + 1)")) == [["a:has(> b c):nth-child(2n + 1)"]]
    assert parse_selector("a:is(b, c)").self_contained
    assert not parse_selector("a:not(b c)").self_contained
    assert not parse_selector("a b").self_contained
    assert parse_selector("a b > c, a ~ b c d").count_searches(" ") == 2
    assert parse_selector("a b:not(c d, e f g ~ h) > i").count_searches(" ") == 3
    assert parse_selector("a ~ b:is(c ~ d) > i").count_searches("~") == 2


def test_time_does_not_grow_exponentially_with_depth() -> None:
    tree = LexborHTMLParser("<div>" * 1_000)
    began = time.monotonic()
    assert CssExpression("span div div div").find_on_page(tree, TreeShape(tree)) == []
    assert len(CssExpression("div div div div").find_on_page(tree, TreeShape(tree))) == 997
    assert time.monotonic() - began < 5


def table(rows: int) -> str:
    return "<table>" + "<tr><td>x</td><td>y</td></tr>" * rows + "</table>"


@pytest.mark.parametrize(
    ("markup", "selector"),
    [
        (table(60_000), "table tr:nth-child(1) td"),
        (table(60_000), "body table tr > td:nth-child(2)"),
        ("<h2>x</h2>" + "<p>y</p>" * 60_000, "h2 ~ p"),
        ("<h2>x</h2>" + "<p>y</p>" * 60_000 + "<i>z</i>", "h2 ~ p ~ i"),
    ],
)
def test_the_first_match_on_a_wide_page_takes_linear_time(markup: str, selector: str) -> None:
    tree = LexborHTMLParser(markup)
    began = time.thread_time()
    assert CssExpression(selector).find_first_on_page(tree, TreeShape(tree)) is not None
    assert time.thread_time() - began < 2, "the square of 60,000 takes 4 s and more"


@pytest.mark.parametrize("selector", ["h2 ~ p", "h2 ~ p ~ p", "div h2 ~ p"])
def test_all_siblings_of_a_wide_page_take_linear_time(selector: str) -> None:
    tree = LexborHTMLParser("<div><h2>x</h2>" + "<p>y</p>" * 60_000)
    began = time.process_time()
    assert len(CssExpression(selector).find_on_page(tree, TreeShape(tree))) in (59_999, 60_000)
    assert time.process_time() - began < 2


def test_a_deep_page_is_evaluated_step_by_step() -> None:
    tree = LexborHTMLParser("<section>x</section>" + "<div>" * 9_000)
    began = time.process_time()
    assert CssExpression("section div div").find_first_on_page(tree, TreeShape(tree)) is None
    assert CssExpression("main div div").find_on_page(tree, TreeShape(tree)) == []
    assert time.process_time() - began < 2, "the parser's own search takes minutes"


def test_the_first_match_in_a_block_that_matches_itself_is_below_it() -> None:
    tree = LexborHTMLParser("<div id=a>" + "<p>x</p>" * 10 + "<div id=b><div id=c></div></div></div>")
    block = tree.css_first("#a")
    assert block is not None
    first = CssExpression("div").find_first_in_block(block, TreeShape(tree))
    assert first is not None
    assert first.id == "b"
    assert "crawl-console" not in (tree.html or "")


@pytest.mark.parametrize("first", [":is(.a)", ":is(.a, .b)", ":where(.a)", ":not(.g, p)", ":has(.g)", "*:is(.a)"])
@pytest.mark.parametrize("depth", [0, 150], ids=["flat", "deep"])
def test_a_selector_may_begin_with_a_pseudo_class(first: str, depth: int) -> None:
    tree = LexborHTMLParser("<div>" * depth + "<div class=a><div class=g><p>x</p></div></div><h2></h2><i></i>")
    shape = TreeShape(tree)
    block = tree.css_first("body")
    for text in (f"{first} p", f"body {first} p", f":is({first} p)", f"{first} .g > p"):
        expression = CssExpression(text)
        for found in (expression.find_on_page(tree, shape), expression.find_in_block(block, shape)):
            assert [node.tag for node in found] == ["p"], text
    assert [node.tag for node in CssExpression(f"{first} ~ i").find_on_page(tree, shape)] == ["i"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a:not(.b) :has(> :not(.c)) ~ :first-child", "a:not(.b) *:has(> *:not(.c)) ~ *:first-child"),
        ("a , :IS( :not(x) y,:is(z))", "a , *:IS( *:not(x) y,*:is(z))"),
        ('[x=":is(a) b"] :nth-child(2n+1 of :is(b))', '[x=":is(a) b"] *:nth-child(2n+1 of :is(b))'),
        ("a\\:b>:not(c)", "a\\:b>*:not(c)"),
        ("a::before", "a::before"),
    ],
)
def test_a_pseudo_class_alone_gets_a_type(written: str, read: str) -> None:
    assert add_universal(written) == read


@pytest.mark.parametrize("selector", [".leaf", "[data-url]", "section .leaf", "i", ".leaf, section", "p, .none"])
def test_a_page_gives_its_matches_one_by_one_too(selector: str) -> None:
    leaf = "<section data-url=/c><div class=leaf data-url=/1><i>x</i></div><div class=leaf></div></section>"
    tree = LexborHTMLParser(f"<!doctype html>{leaf * 3}<p>")
    expression, shape = CssExpression(selector), TreeShape(tree)
    one_by_one = [node.mem_id for node in expression.iterate_page(tree, shape)]
    assert one_by_one == [node.mem_id for node in expression.find_on_page(tree, shape)]
    assert one_by_one
