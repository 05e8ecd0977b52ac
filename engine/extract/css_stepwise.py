"""Evaluates a selector step by step, where Lexbor's own search would try too many tuples of ancestors.

The nodes of each step get a marker attribute, which the selector of the next step names. Time: nodes × depth × steps.
"""

from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode

from engine.extract.css_syntax import CompoundSelector, SelectorList

_MARK = "crawl-console-step"


def match_stepwise(selector_list: SelectorList, root: LexborHTMLParser | LexborNode) -> list[LexborNode]:
    """All matches on a page, or in a block and the block itself, in document order.

    In a block, only the block and its descendants count as ancestors and siblings.
    """
    matcher = _StepwiseMatcher(root)
    try:
        return matcher.match_list(selector_list)
    finally:
        matcher.clear_marks()


def match_first_stepwise(selector_list: SelectorList, tree: LexborHTMLParser) -> LexborNode | None:
    """The first match on a page in document order. The last step of the selector stops there."""
    matcher = _StepwiseMatcher(tree)
    try:
        return matcher.match_first(selector_list)
    finally:
        matcher.clear_marks()


def unique_nodes(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    """The nodes without duplicates."""
    return list({node.mem_id: node for node in nodes}.values())


class _StepwiseMatcher:
    """One evaluation; its marks are removed in the end."""

    def __init__(self, root: LexborHTMLParser | LexborNode) -> None:
        self._root = root
        self._block_id = root.mem_id if isinstance(root, LexborNode) else None
        self._marked: list[tuple[str, list[LexborNode]]] = []

    def match_list(self, selector_list: SelectorList) -> list[LexborNode]:
        results = [self._root.css(text) for text in map(self._reduce, selector_list.alternatives) if text]
        if len(results) <= 1:
            return results[0] if results else []
        merged = unique_nodes(node for nodes in results for node in nodes)
        # One more query restores document order.
        return self._root.css(self._mark(merged)) if merged else []

    def match_first(self, selector_list: SelectorList) -> LexborNode | None:
        results = [self._root.css_first(text) for text in map(self._reduce, selector_list.alternatives) if text]
        nodes = [node for node in results if node is not None]
        return self._root.css_first(self._mark(unique_nodes(nodes))) if len(nodes) > 1 else next(iter(nodes), None)

    def clear_marks(self) -> None:
        for name, nodes in self._marked:
            for node in nodes:
                del node.attrs[name]

    def _reduce(self, steps: tuple[CompoundSelector, ...]) -> str:
        """A selector with one combinator at most that matches what all the steps match; empty: nothing can match."""
        text = self._render(steps[0])
        for step in steps[1:]:
            nodes = self._root.css(text)
            if not nodes:
                return ""
            if step.combinator == "~":
                text = self._render(step) + self._mark(self._following_siblings(nodes))
            else:
                text = self._mark(nodes) + step.combinator + self._render(step)
        return text

    def _render(self, step: CompoundSelector) -> str:
        return "".join(
            part if isinstance(part, str) else f"{part.head}{self._mark(self.match_list(part.selector_list))})"
            for part in step.parts
        )

    def _mark(self, nodes: list[LexborNode]) -> str:
        """Marks the nodes (without duplicates). Returns the selector that matches them; of no nodes: nothing."""
        name = f"{_MARK}-{len(self._marked)}"
        self._marked.append((name, nodes))
        for node in nodes:
            node.attrs[name] = ""
        return f"[{name}]"

    def _following_siblings(self, nodes: list[LexborNode]) -> list[LexborNode]:
        """The elements after one of the nodes, each visited once: the parser would search back from each of them."""
        found: dict[int, LexborNode] = {}
        for node in nodes:
            if node.mem_id == self._block_id:
                continue
            sibling = node.next
            while sibling is not None and sibling.mem_id not in found:
                found[sibling.mem_id] = sibling
                sibling = sibling.next
        return [node for node in found.values() if node.is_element_node]
