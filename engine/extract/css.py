"""CSS on Lexbor's trees: inside a block as if nothing were around it, and never slower than nodes × depth.

Lexbor's own `css()` of a node also matches through ancestors outside of it, and takes time with the depth to
the power of the combinators. Where that matters the steps of a selector are taken one at a time: the nodes of
each step are marked with an attribute, which the next step's selector names. Knows no fields and no pages.
"""

from collections.abc import Callable, Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from engine.extract.css_syntax import CompoundSelector, SelectorList, parse_selector

_MARK = "crawl-console-mark"

_FindNodes = Callable[[str], list[LexborNode]]


class CssExpression:
    """A compiled selector. Raises `ValueError` for one that cannot be parsed.

    In a block only the block's descendants match, and only descendants or the block itself serve as ancestors:
    `div.outer a` does not match by a `div.outer` around the block, nor `a` the block itself.
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
        # Lexbor gives a node once for each of the alternatives it matches.
        self._may_duplicate = len(self._selector_list.alternatives) > 1

    def find_on_page(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """All matches of the document, in its order."""
        if not self._cheap:
            return self._match_stepwise(tree.css)
        found = tree.css(self._text)
        return _unique_nodes(found) if self._may_duplicate else found

    def find_first_on_page(self, tree: LexborHTMLParser) -> LexborNode | None:
        """The first match of the document."""
        if self._cheap:
            return tree.css_first(self._text)
        return next(iter(self._match_stepwise(tree.css)), None)

    def find_in_block(self, block: LexborNode) -> list[LexborNode]:
        """All matches among the descendants of the block, in the document's order."""
        if self._self_contained:
            found = block.css(self._text)
            if self._may_duplicate:
                found = _unique_nodes(found)
        else:
            found = self._match_stepwise(block.css)
        # The block itself comes first, where it matches.
        return found[1:] if found and found[0].mem_id == block.mem_id else found

    def find_first_in_block(self, block: LexborNode) -> LexborNode | None:
        """The first match among the descendants of the block."""
        if self._self_contained:
            found = block.css_first(self._text)
            if found is None or found.mem_id != block.mem_id:
                return found
        return next(iter(self.find_in_block(block)), None)

    def _match_stepwise(self, find: _FindNodes) -> list[LexborNode]:
        marks = _NodeMarks()
        try:
            return _match_list(self._selector_list, find, marks)
        finally:
            marks.clear()


class _NodeMarks:
    """Attributes set on nodes for the time of one evaluation."""

    __slots__ = ("_marked",)

    def __init__(self) -> None:
        self._marked: list[tuple[str, list[LexborNode]]] = []

    def add(self, nodes: list[LexborNode]) -> str:
        """Marks the nodes, each given once; the selector that finds them again."""
        name = f"{_MARK}-{len(self._marked)}"
        self._marked.append((name, nodes))
        for node in nodes:
            node.attrs[name] = ""
        return f"[{name}]"

    def clear(self) -> None:
        """Takes all marks away."""
        for name, nodes in self._marked:
            for node in nodes:
                del node.attrs[name]


def _match_list(query: SelectorList, find: _FindNodes, marks: _NodeMarks) -> list[LexborNode]:
    results = [_match_compounds(steps, find, marks) for steps in query.alternatives]
    if len(results) == 1:
        return results[0]
    merged = _unique_nodes(node for nodes in results for node in nodes)
    # One more walk, for the order of the document.
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
    written = ""
    for part in step.parts:
        if isinstance(part, str):
            written += part
        else:
            nodes = _match_list(part.selector_list, find, marks)
            # A mark never set stands for no match at all.
            written += part.head + (marks.add(nodes) if nodes else f"[{_MARK}-none]") + ")"
    return written


def _unique_nodes(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    return list({node.mem_id: node for node in nodes}.values())
