"""CSS on Lexbor's trees: inside a block as if nothing were around it, and never slower than nodes × depth.

Lexbor's own `css()` of a node also matches through ancestors outside of it, and takes time with the depth to
the power of the combinators. Where that matters the steps of a selector are taken one at a time: the nodes of
each step are marked with an attribute, which the next step's selector names. Knows no fields and no pages.
"""

from collections.abc import Callable, Iterable

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from engine.extract.css_syntax import Query, Step, split

_MARK = "crawl-console-mark"

_Find = Callable[[str], list[LexborNode]]


class Css:
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
        self._query = split(text)
        self._plain = self._query.plain
        self._cheap = self._query.cheap
        # Lexbor gives a node once for each of the alternatives it matches.
        self._doubles = len(self._query.alternatives) > 1

    def on_page(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """All matches of the document, in its order."""
        if not self._cheap:
            return self._stepwise(tree.css)
        found = tree.css(self._text)
        return _once(found) if self._doubles else found

    def first_on_page(self, tree: LexborHTMLParser) -> LexborNode | None:
        """The first match of the document."""
        if self._cheap:
            return tree.css_first(self._text)
        return next(iter(self._stepwise(tree.css)), None)

    def in_block(self, block: LexborNode) -> list[LexborNode]:
        """All matches among the descendants of the block, in the document's order."""
        if self._plain:
            found = block.css(self._text)
            if self._doubles:
                found = _once(found)
        else:
            found = self._stepwise(block.css)
        # The block itself comes first, where it matches.
        return found[1:] if found and found[0].mem_id == block.mem_id else found

    def first_in_block(self, block: LexborNode) -> LexborNode | None:
        """The first match among the descendants of the block."""
        if self._plain:
            found = block.css_first(self._text)
            if found is None or found.mem_id != block.mem_id:
                return found
        return next(iter(self.in_block(block)), None)

    def _stepwise(self, find: _Find) -> list[LexborNode]:
        marks = _Marks()
        try:
            return _matches(self._query, find, marks)
        finally:
            marks.wipe()


class _Marks:
    """Attributes set on nodes for the time of one evaluation."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set: list[tuple[str, list[LexborNode]]] = []

    def put(self, nodes: list[LexborNode]) -> str:
        """Marks the nodes, each given once; the selector that finds them again."""
        name = f"{_MARK}-{len(self._set)}"
        self._set.append((name, nodes))
        for node in nodes:
            node.attrs[name] = ""
        return f"[{name}]"

    def wipe(self) -> None:
        """Takes all marks away."""
        for name, nodes in self._set:
            for node in nodes:
                del node.attrs[name]


def _matches(query: Query, find: _Find, marks: _Marks) -> list[LexborNode]:
    results = [_last(steps, find, marks) for steps in query.alternatives]
    if len(results) == 1:
        return results[0]
    merged = _once(node for nodes in results for node in nodes)
    # One more walk, for the order of the document.
    return find(marks.put(merged)) if merged else []


def _last(steps: tuple[Step, ...], find: _Find, marks: _Marks) -> list[LexborNode]:
    mark = ""
    for step in steps:
        nodes = find(mark + step.combinator + _written(step, find, marks))
        if not nodes or step is steps[-1]:
            return nodes
        mark = marks.put(nodes)
    return []


def _written(step: Step, find: _Find, marks: _Marks) -> str:
    written = ""
    for part in step.parts:
        if isinstance(part, str):
            written += part
        else:
            nodes = _matches(part.query, find, marks)
            # A mark never set stands for no match at all.
            written += part.head + (marks.put(nodes) if nodes else f"[{_MARK}-none]") + ")"
    return written


def _once(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    return list({node.mem_id: node for node in nodes}.values())
