"""How deep and how wide a parsed tree is, asked of the parser itself."""

from selectolax.lexbor import LexborHTMLParser


class TreeShape:
    """The shape of one tree. Each question costs one walk over the tree, once; elements the parser implied count."""

    __slots__ = ("_answers", "tree")

    def __init__(self, tree: LexborHTMLParser) -> None:
        self.tree = tree
        self._answers: dict[tuple[str, int], bool] = {}

    def is_deeper(self, levels: int) -> bool:
        """Whether an element has at least that many ancestors."""
        return self._has_chain(">", levels)

    def is_wider(self, siblings: int) -> bool:
        """Whether an element has at least that many siblings before it."""
        return self._has_chain("+", siblings)

    def _has_chain(self, combinator: str, length: int) -> bool:
        key = (combinator, length)
        if key not in self._answers:
            # These combinators leave the parser no choice, so it takes at most `length` steps for an element.
            chain = combinator.join("*" * (length + 1))
            self._answers[key] = self.tree.css_first(chain) is not None
        return self._answers[key]
