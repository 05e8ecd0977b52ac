"""CSS selectors on Lexbor trees: scoped to a block, in time bounded by nodes × depth.

Lexbor's `node.css()` also matches through ancestors outside the node, and its time grows with the depth to the power
of the number of combinators. Where that matters, we evaluate a selector step by step: the nodes of each step get a
marker attribute, which the selector of the next step names.
"""

from collections.abc import Callable, Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from engine.extract.css_syntax import CompoundSelector, SelectorList, parse_selector

_MARK = "crawl-console-mark"

_FindNodes = Callable[[str], list[LexborNode]]


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
        self._text = text
        self._selector_list = parse_selector(text)
        self._self_contained = self._selector_list.self_contained
        self._cheap = self._selector_list.cheap
        # Lexbor returns a node once for each alternative it matches.
        self._may_duplicate = len(self._selector_list.alternatives) > 1

    def find_on_page(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """All matches, in document order."""
        if not self._cheap:
            return self._match_stepwise(tree.css)
        nodes = tree.css(self._text)
        return _unique_nodes(nodes) if self._may_duplicate else nodes

    def find_first_on_page(self, tree: LexborHTMLParser) -> LexborNode | None:
        """The first match in document order."""
        if self._cheap:
            return tree.css_first(self._text)
        return next(iter(self._match_stepwise(tree.css)), None)

    def find_in_block(self, block: LexborNode) -> list[LexborNode]:
        """All matches among the descendants of the block, in document order."""
        if self._self_contained:
            nodes = block.css(self._text)
            if self._may_duplicate:
                nodes = _unique_nodes(nodes)
        else:
            nodes = self._match_stepwise(block.css)
        # If the block itself matches, it comes first.
        return nodes[1:] if nodes and nodes[0].mem_id == block.mem_id else nodes

    def find_first_in_block(self, block: LexborNode) -> LexborNode | None:
        """The first match among the descendants of the block."""
        if self._self_contained:
            node = block.css_first(self._text)
            if node is None or node.mem_id != block.mem_id:
                return node
        return next(iter(self.find_in_block(block)), None)

    def _match_stepwise(self, find: _FindNodes) -> list[LexborNode]:
        marks = _NodeMarks()
        try:
            return _match_list(self._selector_list, find, marks)
        finally:
            marks.clear()


class _NodeMarks:
    """Marker attributes on nodes, for the time of one evaluation."""

    __slots__ = ("_marked",)

    def __init__(self) -> None:
        self._marked: list[tuple[str, list[LexborNode]]] = []

    def add(self, nodes: list[LexborNode]) -> str:
        """Marks the nodes (without duplicates). Returns the selector that matches them."""
        name = f"{_MARK}-{len(self._marked)}"
        self._marked.append((name, nodes))
        for node in nodes:
            node.attrs[name] = ""
        return f"[{name}]"

    def clear(self) -> None:
        """Removes all marks."""
        for name, nodes in self._marked:
            for node in nodes:
                del node.attrs[name]


def _match_list(selector_list: SelectorList, find: _FindNodes, marks: _NodeMarks) -> list[LexborNode]:
    results = [_match_compounds(steps, find, marks) for steps in selector_list.alternatives]
    if len(results) == 1:
        return results[0]
    merged = _unique_nodes(node for nodes in results for node in nodes)
    # One more query restores document order.
    return find(marks.add(merged)) if merged else []


def _match_compounds(steps: tuple[CompoundSelector, ...], find: _FindNodes, marks: _NodeMarks) -> list[LexborNode]:
    mark = ""
    for step in steps:
        nodes = find(mark + step.combinator + _render_compound(step, find, marks))
        if not nodes or step is steps[-1]:
            return nodes
        mark = marks.add(nodes)
    return []


def _render_compound(step: CompoundSelector, find: _FindNodes, marks: _NodeMarks) -> str:
    rendered = ""
    for part in step.parts:
        if isinstance(part, str):
            rendered += part
        else:
            nodes = _match_list(part.selector_list, find, marks)
            # A mark that is on no node matches nothing.
            rendered += part.head + (marks.add(nodes) if nodes else f"[{_MARK}-none]") + ")"
    return rendered


def _unique_nodes(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    return list({node.mem_id: node for node in nodes}.values())
