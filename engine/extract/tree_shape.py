"""How deep and how wide a parsed tree is, asked of the parser itself."""

from selectolax.lexbor import LexborHTMLParser

_FEW = 30
"""Trees of this depth and width are common, and quicker asked for."""


class TreeShape:
    """The shape of one tree. Each question costs one walk over the tree, once; elements the parser implied count."""

    __slots__ = ("_answers", "tree")

    def __init__(self, tree: LexborHTMLParser) -> None:
        self.tree = tree
        self._answers: dict[tuple[str, int], bool] = {}

    def is_deeper(self, levels: int) -> bool:
        """Whether an element has at least that many ancestors."""
        # with an element, the first one of its parent is as deep
        return self._has_chain(">", levels, ":first-child")

    def is_wider(self, siblings: int) -> bool:
        """Whether an element has at least that many siblings before it."""
        return self._has_chain("+", siblings, ":last-child")

    def _has_chain(self, combinator: str, length: int, end: str) -> bool:
        if length > _FEW and not self._has_chain(combinator, _FEW, end):
            return False
        key = (combinator, length)
        if key not in self._answers:
            # These combinators leave the parser no choice, so it takes at most `length` steps for an element.
            chain = combinator.join(["*"] * length + [end])
            self._answers[key] = self.tree.css_first(chain) is not None
        return self._answers[key]
