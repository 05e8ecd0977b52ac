"""Searches find the nodes of a reference implementation."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_engine.extract.select.css import CssExpression


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


@dataclass(frozen=True)
class Step:
    combinator: str
    tag: str
    pseudo_class: str = ""
    arguments: tuple[tuple["Step", ...], ...] = ()

    def text(self, first: bool) -> str:
        combinator = "" if first else f" {self.combinator} "
        pseudo_class = f":{self.pseudo_class}({list_text(self.arguments)})" if self.pseudo_class else ""
        return f"{combinator}{self.tag}{pseudo_class}"


Steps = tuple[Step, ...]


def list_text(alternatives: tuple[Steps, ...]) -> str:
    return ", ".join("".join(step.text(at == 0) for at, step in enumerate(steps)) for steps in alternatives)


def matches_compound(node: Node, step: Step, top: Node) -> bool:
    if step.tag not in ("*", node.tag):
        return False
    if not step.pseudo_class:
        return True
    return any(matches(node, steps, top) for steps in step.arguments) != (step.pseudo_class == "not")


def matches(node: Node, steps: Steps, top: Node) -> bool:
    if not matches_compound(node, steps[-1], top):
        return False
    if len(steps) == 1:
        return True
    ancestors = []
    up = node
    while up is not top and up.parent is not None:
        up = up.parent
        ancestors.append(up)
    siblings_before = [] if node is top else node.previous_siblings()
    candidates = {" ": ancestors, ">": ancestors[:1], "~": siblings_before, "+": siblings_before[-1:]}
    return any(matches(other, steps[:-1], top) for other in candidates[steps[-1].combinator])


tags = st.sampled_from(["div", "section", "article"])
trees = st.recursive(
    tags.map(lambda tag: Node(tag, [])),
    lambda inner: st.builds(Node, tags, st.lists(inner, max_size=4)),
    max_leaves=14,
)
combinators = st.sampled_from([" ", ">", "~", "+"])
plain_chains = st.lists(st.builds(Step, combinators, tags), min_size=1, max_size=3).map(tuple)
argument_lists = st.lists(plain_chains, min_size=1, max_size=2).map(tuple)
steps_with_pseudo_class = st.builds(
    Step, combinators, st.sampled_from(["div", "section", "*"]), st.sampled_from(["is", "not", "where"]), argument_lists
)
chains = st.lists(st.one_of(st.builds(Step, combinators, tags), steps_with_pseudo_class), min_size=1, max_size=4)
selectors = st.lists(chains.map(tuple), min_size=1, max_size=2).map(tuple)


def ids(nodes: list[LexborNode]) -> list[str | None]:
    return [node.id for node in nodes]


def first_ids(node: LexborNode | None) -> list[str | None]:
    return [] if node is None else [node.id]


@settings(max_examples=250)
@given(trees, selectors, st.integers(0, 100))
def test_searches_equal_the_reference_implementation(root: Node, alternatives: tuple[Steps, ...], pick: int) -> None:
    nodes = root.walk()
    for number, node in enumerate(nodes):
        node.number = str(number)
    tree = LexborHTMLParser(root.html())
    before = tree.html
    css = CssExpression(list_text(alternatives))

    def expected(top: Node) -> list[str]:
        return [n.number for n in top.walk() if any(matches(n, steps, top) for steps in alternatives)]

    block = nodes[pick % len(nodes)]
    block_node = tree.css_first(f'[id="{block.number}"]')
    assert block_node is not None
    # The page has `html` and `body` above the root, which the selector `*:not(…)` matches too.
    on_page = expected(root)
    inside = [number for number in expected(block) if number != block.number]
    found = ids(css.find_on_page(tree))
    assert first_ids(css.find_first_on_page(tree)) == found[:1]
    if "*" not in list_text(alternatives):
        assert found == on_page
    assert ids(css.find_in_block(block_node)) == inside
    assert first_ids(css.find_first_in_block(block_node)) == inside[:1]
    assert tree.html == before
