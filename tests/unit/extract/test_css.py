"""CSS selectors are scoped to a block, and take time bounded by nodes × depth."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.extract.css import CssExpression
from engine.extract.css_syntax import SelectorList, parse_selector

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
    """If this fails, the stepwise evaluation is no longer needed."""
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
    assert parse_selector("a b > c").cheap
    assert not parse_selector("a b c").cheap


def test_time_does_not_grow_exponentially_with_depth() -> None:
    tree = LexborHTMLParser("<div>" * 1_000)
    began = time.monotonic()
    assert CssExpression("span div div div").find_on_page(tree) == []
    assert len(CssExpression("div div div div").find_on_page(tree)) == 997
    assert time.monotonic() - began < 5


class Node:
    """A tree with a reference implementation of matching."""

    def __init__(self, tag: str, children: list["Node"]) -> None:
        self.tag, self.children = tag, children
        self.parent: Node | None = None
        self.number = ""
        for child in children:
            child.parent = self

    def walk(self) -> list["Node"]:
        return [self, *(node for child in self.children for node in child.walk())]

    def html(self) -> str:
        inner = "".join(child.html() for child in self.children)
        return f'<{self.tag} id="{self.number}">{inner}</{self.tag}>'

    def previous_siblings(self) -> list["Node"]:
        if self.parent is None:
            return []
        return self.parent.children[: self.parent.children.index(self)]


def matches(node: Node, steps: list[tuple[str, str]], top: Node) -> bool:
    combinator, tag = steps[-1]
    if node.tag != tag:
        return False
    if len(steps) == 1:
        return True
    ancestors = []
    up = node
    while up is not top and up.parent is not None:
        up = up.parent
        ancestors.append(up)
    siblings_before = [] if node is top else node.previous_siblings()
    candidates = {" ": ancestors, ">": ancestors[:1], "~": siblings_before, "+": siblings_before[-1:]}[combinator]
    return any(matches(other, steps[:-1], top) for other in candidates)


tags = st.sampled_from(["div", "section", "article"])
nodes_strategy = st.recursive(
    tags.map(lambda tag: Node(tag, [])),
    lambda inner: st.builds(Node, tags, st.lists(inner, max_size=4)),
    max_leaves=14,
)
chains = st.lists(st.tuples(st.sampled_from([" ", ">", "~", "+"]), tags), min_size=1, max_size=4)


def selector_text(chain: list[tuple[str, str]]) -> str:
    return "".join(tag if at == 0 else f" {combinator} {tag}" for at, (combinator, tag) in enumerate(chain))


@settings(max_examples=150)
@given(nodes_strategy, st.lists(chains, min_size=1, max_size=2), st.integers(0, 100))
def test_results_equal_the_reference_implementation(
    root: Node, alternatives: list[list[tuple[str, str]]], pick: int
) -> None:
    nodes = root.walk()
    for number, node in enumerate(nodes):
        node.number = str(number)
    tree = LexborHTMLParser(root.html())
    css = CssExpression(", ".join(map(selector_text, alternatives)))

    def expected(top: Node) -> list[str]:
        return [n.number for n in top.walk() if any(matches(n, steps, top) for steps in alternatives)]

    assert ids(css.find_on_page(tree)) == expected(root)
    block = nodes[pick % len(nodes)]
    block_node = tree.css_first(f'[id="{block.number}"]')
    assert block_node is not None
    assert ids(css.find_in_block(block_node)) == [number for number in expected(block) if number != block.number]
