"""CSS selectors are scoped to a block, and say how long a search with them may take."""

import time

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.select.css import CssExpression, SelectorList, Speed, add_universal, parse_selector

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
    nodes = CssExpression(selector).find_in_block(block)
    assert ids(nodes) == inside
    first = CssExpression(selector).find_first_in_block(block)
    assert (None if first is None else first.id) == (inside[0] if inside else None)
    assert tree.html == before


def test_the_parser_itself_is_not_scoped() -> None:
    """If this fails, blocks need no marks."""
    block = LexborHTMLParser(TRAP).css_first("#b")
    assert block is not None
    assert ids(block.css("div.outer .x")) == ["b", "p1"]


def test_matches_on_a_page_are_unique_and_in_document_order() -> None:
    tree = LexborHTMLParser(TRAP)
    assert ids(CssExpression("p, .x, #i1").find_on_page(tree)) == ["o", "b", "p1", "i1", "p2", "after"]
    assert ids(CssExpression("div section article p, i").find_on_page(tree)) == ["p1", "i1", "p2"]
    assert CssExpression("div section article p").find_first_on_page(tree) is not None
    assert CssExpression("div section article table").find_first_on_page(tree) is None


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


@pytest.mark.parametrize(
    ("speed", "selectors"),
    [
        (Speed.QUICK, ("a", "a.b[c='d e']#f", "ul > li + li", "a:not(.b), b", "li:first-child, li:last-child")),
        (Speed.QUICK_IF_PLAIN, ("table td", "table tr > td", "ul li a, nav a", "a:not(.x) b")),
        (
            Speed.SLOW,
            (
                *("table tr td a", "h2 ~ p", "a, h2 ~ p", "a:not(p q)", "a:is(.b)", ":where(a) b", "li:has(a)"),
                *("tr:nth-child(2) td", "tr:NTH-last-child(1)", "p:last-of-type", "a:not(:nth-child(2))"),
            ),
        ),
    ],
)
def test_a_selector_says_how_long_its_search_may_take(speed: Speed, selectors: tuple[str, ...]) -> None:
    assert {selector: CssExpression(selector).speed for selector in selectors} == dict.fromkeys(selectors, speed)


def table(rows: int) -> str:
    return "<table>" + "<tr><td>x</td><td>y</td></tr>" * rows + "</table>"


@pytest.mark.parametrize(
    ("markup", "selector"),
    [
        (table(60_000), "table tr:nth-child(1) td"),
        (table(60_000), "body table tr > td:nth-child(2)"),
        ("<h2>x</h2>" + "<p>y</p>" * 60_000, "h2 ~ p"),
    ],
)
def test_the_first_match_on_a_wide_page_takes_linear_time(markup: str, selector: str) -> None:
    tree = LexborHTMLParser(markup)
    began = time.thread_time()
    assert CssExpression(selector).find_first_on_page(tree) is not None
    assert time.thread_time() - began < 2, "the square of 60,000 takes 4 s and more"


def test_the_first_match_in_a_block_that_matches_itself_is_below_it() -> None:
    tree = LexborHTMLParser("<div id=a>" + "<p>x</p>" * 10 + "<div id=b><div id=c></div></div></div>")
    block = tree.css_first("#a")
    assert block is not None
    first = CssExpression("div").find_first_in_block(block)
    assert first is not None
    assert first.id == "b"
    assert "crawl-console" not in (tree.html or "")


@pytest.mark.parametrize("first", [":is(.a)", ":is(.a, .b)", ":where(.a)", ":not(.g, p)", ":has(.g)", "*:is(.a)"])
@pytest.mark.parametrize("depth", [0, 150], ids=["flat", "deep"])
def test_a_selector_may_begin_with_a_pseudo_class(first: str, depth: int) -> None:
    tree = LexborHTMLParser("<div>" * depth + "<div class=a><div class=g><p>x</p></div></div><h2></h2><i></i>")
    block = tree.css_first("body")
    for text in (f"{first} p", f"body {first} p", f":is({first} p)", f"{first} .g > p"):
        expression = CssExpression(text)
        for found in (expression.find_on_page(tree), expression.find_in_block(block)):
            assert [node.tag for node in found] == ["p"], text
    assert [node.tag for node in CssExpression(f"{first} ~ i").find_on_page(tree)] == ["i"]


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
    expression = CssExpression(selector)
    one_by_one = [node.mem_id for node in expression.iterate_page(tree)]
    assert one_by_one == [node.mem_id for node in expression.find_on_page(tree)]
    assert one_by_one


@pytest.mark.parametrize("tag", ["a", "A", "title", "html", "template", "h2", "foreignobject", "x1"])
def test_a_tag_is_found_as_the_parser_matches_it(tag: str) -> None:
    inner = f"<{tag} id=1>a<{tag.upper()} id=2>b</{tag}></{tag}>"
    tree = LexborHTMLParser(
        f"<!doctype html><title>t</title><svg><title>s</title>{inner}<foreignObject>{inner}</foreignObject></svg>"
        f"<math>{inner}</math><template>{inner}</template><table>{inner}<tr><td>{inner}</table><p>{inner}"
    )
    expression = CssExpression(tag)
    matches = [node.mem_id for node in tree.css(tag)]
    assert [node.mem_id for node in expression.find_on_page(tree)] == matches
    assert [node.mem_id for node in expression.iterate_page(tree)] == matches
    first = expression.find_first_on_page(tree)
    assert [first.mem_id if first is not None else None] == (matches[:1] or [None])
