"""CSS selectors on Lexbor trees: scoped to a block, in time bounded by nodes × depth.

Lexbor's `node.css()` also matches through ancestors outside the node, so a block gets a marker attribute, which the
selector then names. Its time for one node grows with the depth to the power of the number of descendant combinators.
Where that matters, `css_stepwise` evaluates the selector.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from engine.extract.css_stepwise import match_first_stepwise, match_stepwise, unique_nodes
from engine.extract.css_syntax import add_universal, parse_selector
from engine.extract.tree_shape import TreeShape

_Result = TypeVar("_Result")

LexborError = SelectolaxError
"""A search with a selector that was parsed before raises it only when memory runs out."""

MAX_TUPLES = 10_000
"""Tuples of ancestors and siblings that the parser may try for one node."""

_MAX_SIBLINGS = 100
"""Siblings that the parser may search for one node: pages are wider than deep."""

_MARK = "crawl-console-block"
_BLOCK_MARK = f"[{_MARK}]"


class CssExpression:
    """A compiled selector. Raises `ValueError` if the selector cannot be parsed.

    In a block, only its descendants match, and only they or the block itself count as ancestors: a `div.outer`
    around the block does not satisfy `div.outer a`, and `a` does not match the block itself.
    """

    def __init__(self, text: str) -> None:
        try:
            LexborHTMLParser("").css(text)
        except (SelectolaxError, ValueError) as error:
            raise ValueError(f"not a CSS selector: {text[:60]!r}") from error
        text = self._text = add_universal(text)
        self._selector_list = parse_selector(text)
        self._self_contained = self._selector_list.self_contained
        self.is_flat = self._self_contained
        """Whether its time does not depend on the depth of a page."""
        self.cost = self._selector_list.cost
        """How the parser's own time may grow with the size of a page."""
        self._scoped_text = self._selector_list.scope(_BLOCK_MARK)
        # Lexbor returns a node once for each alternative it matches.
        self._may_duplicate = len(self._selector_list.alternatives) > 1
        self.is_plain = self.is_flat and not self._may_duplicate and not any(mark in text for mark in ":\\")
        """Whether it is one step of tag, classes, id and attributes, and may be a part of a longer selector."""
        descendants, siblings = (self._selector_list.count_searches(combinator) for combinator in " ~")
        self._page_limits = _shape_limits(descendants, siblings)
        self._block_limits = _shape_limits(descendants + 1, siblings)

    def find_on_page(self, tree: LexborHTMLParser, shape: TreeShape) -> list[LexborNode]:
        """All matches, in document order."""
        if not self._page_limits.allow(shape):
            return match_stepwise(self._selector_list, tree)
        nodes = tree.css(self._text)
        return unique_nodes(nodes) if self._may_duplicate else nodes

    def iterate_page(self, tree: LexborHTMLParser, shape: TreeShape) -> Iterator[LexborNode]:
        """All matches, in document order, one by one: a list of half a million takes 40 MB. About 2 µs an element."""
        if not self._page_limits.allow(shape):
            yield from match_stepwise(self._selector_list, tree)
            return
        if tree.root is not None:
            yield from (
                _walk_tags(tree.root, self._text) if self._text.isalpha() else _walk_matches(tree.root, self._text)
            )

    def find_first_on_page(self, tree: LexborHTMLParser, shape: TreeShape) -> LexborNode | None:
        """The first match in document order."""
        if not self._page_limits.allow(shape):
            return match_first_stepwise(self._selector_list, tree)
        return tree.css_first(self._text)

    def find_in_block(self, block: LexborNode, shape: TreeShape) -> list[LexborNode]:
        """All matches among the descendants of the block, in document order. `shape`: of the block's tree."""
        if self._self_contained:
            nodes = block.css(self._text)
            if self._may_duplicate:
                nodes = unique_nodes(nodes)
        elif self._block_limits.allow(shape):
            return unique_nodes(_query_scoped(block, self._scoped_text, LexborNode.css))
        else:
            nodes = match_stepwise(self._selector_list, block)
        # If the block itself matches, it comes first.
        return nodes[1:] if nodes and nodes[0].mem_id == block.mem_id else nodes

    def find_first_in_block(self, block: LexborNode, shape: TreeShape) -> LexborNode | None:
        """The first match among the descendants of the block. `shape`: of the block's tree."""
        if self._self_contained:
            node = block.css_first(self._text)
            if node is None or node.mem_id != block.mem_id:
                return node
        elif not self._block_limits.allow(shape):
            return next(iter(self.find_in_block(block, shape)), None)
        return _query_scoped(block, self._scoped_text, LexborNode.css_first)


def _walk_tags(root: LexborNode, tag: str) -> Iterator[LexborNode]:
    tag = tag.lower()
    return (node for node in root.traverse() if node.tag == tag)


def _walk_matches(root: LexborNode, text: str) -> Iterator[LexborNode]:
    """Each match below the root, in document order; an element whose first match is below it is none itself."""
    node: LexborNode | None = root
    while node is not None:
        first = node.css_first(text) if node.is_element_node else None
        if first is not None and first.mem_id == node.mem_id:
            yield node
        following = node.child if first is not None else None
        while following is None and node is not None and node.mem_id != root.mem_id:
            following, node = node.next, node.parent
        node = following


class _ShapeLimits(Struct, frozen=True):
    """Up to which depth and width of a tree the parser's own search is quick; None: any."""

    levels: int | None
    siblings: int | None

    def allow(self, shape: TreeShape) -> bool:
        return not (
            (self.levels is not None and shape.is_deeper(self.levels))
            or (self.siblings is not None and shape.is_wider(self.siblings))
        )


def _shape_limits(descendants: int, siblings: int) -> _ShapeLimits:
    """The limits for a selector with so many searches through ancestors and siblings."""
    if descendants + siblings == 0 or (descendants == 1 and not siblings):
        return _ShapeLimits(None, None)
    limit = int(MAX_TUPLES ** (1 / (descendants + siblings)))
    return _ShapeLimits(limit if descendants else None, min(limit, _MAX_SIBLINGS) if siblings else None)


def _query_scoped(block: LexborNode, text: str, query: Callable[[LexborNode, str], _Result]) -> _Result:
    block.attrs[_MARK] = ""
    try:
        return query(block, text)
    finally:
        del block.attrs[_MARK]
