"""Reads a CSS selector, for HTML and for XML; searches HTML pages and blocks of them.

Lexbor's `node.css()` also matches through ancestors outside the node, so a block gets a marker attribute, which the
selector then names.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TypeVar

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

_Result = TypeVar("_Result")

LexborError = SelectolaxError
"""Searches with a parsed selector raise it only when memory runs out."""

_MARK = "crawl-console-block"
_BLOCK_MARK = f"[{_MARK}]"

_MAX_TAG_CHARACTERS = 100
"""The parser searches for no longer tag."""
_WHITESPACE = " \t\n\r\f"
_CLOSING_BRACKETS = {"(": ")", "[": "]"}
_PSEUDO_CLASSES = (":is(", ":where(", ":not(")
_WITH_SELECTORS = (*_PSEUDO_CLASSES, ":has(")
_SLOW_PSEUDO_CLASS = re.compile(r":(?:nth-|has\(|is\(|where\(|[a-z]+-of-type)", re.IGNORECASE)
_MAX_SEARCHES = 2
"""Searches through ancestors for one element. Lexbor tries all combinations of them."""


class Speed(IntEnum):
    """How long one search of a page may take."""

    QUICK = 1
    """The search looks at each element alone."""
    QUICK_IF_PLAIN = 2
    """The search looks at the ancestors of each element, or at JSON: quick if levels and values are few."""
    SLOW = 3
    """The time may grow with the square of the page, or more."""


class CssExpression:
    """A compiled selector. Raises `ValueError` if the selector cannot be parsed.

    In a block, only its descendants match, and only they or the block itself count as ancestors: a `div.outer`
    around the block does not satisfy `div.outer a`, and `a` does not match the block itself.
    """

    def __init__(self, text: str) -> None:
        try:
            self._text, self._selector_list = read_selector(text)
        except (SelectolaxError, ValueError) as error:
            raise ValueError(f"not a CSS selector: {text[:60]!r}") from error
        self.speed = self._selector_list.speed
        self._self_contained = self._selector_list.self_contained
        self._scoped_text = self._selector_list.scope(_BLOCK_MARK)
        is_tag = self._text.isascii() and self._text.isalnum() and len(self._text) <= _MAX_TAG_CHARACTERS
        self._tag = self._text.lower() if is_tag else ""
        # Lexbor returns a node once for each alternative it matches.
        self._may_duplicate = len(self._selector_list.alternatives) > 1

    def find_on_page(self, tree: LexborHTMLParser) -> list[LexborNode]:
        if self._tag:
            return tree.tags(self._tag)  # in half the time of `css`
        nodes = tree.css(self._text)
        return _unique_nodes(nodes) if self._may_duplicate else nodes

    def iterate_page(self, tree: LexborHTMLParser) -> Iterator[LexborNode]:
        """All matches, in document order, one by one: a list of very many takes memory."""
        if tree.root is None:
            return iter(())
        return _walk_tags(tree.root, self._tag) if self._tag else _walk_matches(tree.root, self._text)

    def find_first_on_page(self, tree: LexborHTMLParser) -> LexborNode | None:
        return tree.css_first(self._text)

    def find_in_block(self, block: LexborNode) -> list[LexborNode]:
        if not self._self_contained:
            return _unique_nodes(_query_scoped(block, self._scoped_text, LexborNode.css))
        nodes = block.css(self._text)
        if self._may_duplicate:
            nodes = _unique_nodes(nodes)
        # If the block itself matches, it comes first.
        return nodes[1:] if nodes and nodes[0].mem_id == block.mem_id else nodes

    def find_first_in_block(self, block: LexborNode) -> LexborNode | None:
        """The first match among the descendants of the block."""
        if self._self_contained:
            node = block.css_first(self._text)
            if node is None or node.mem_id != block.mem_id:  # the parser finds the block itself, too
                return node
        return _query_scoped(block, self._scoped_text, LexborNode.css_first)


def _unique_nodes(nodes: Iterable[LexborNode]) -> list[LexborNode]:
    return list({node.mem_id: node for node in nodes}.values())


def _walk_tags(root: LexborNode, tag: str) -> Iterator[LexborNode]:
    return (node for node in root.traverse() if (node.tag or "").lower() == tag)


def _walk_matches(root: LexborNode, text: str) -> Iterator[LexborNode]:
    """Each match below the root, in document order. Skips an element if its first match is a descendant."""
    node: LexborNode | None = root
    while node is not None:
        first = node.css_first(text) if node.is_element_node else None
        if first is not None and first.mem_id == node.mem_id:
            yield node
        following = node.child if first is not None else None
        while following is None and node is not None and node.mem_id != root.mem_id:
            following, node = node.next, node.parent
        node = following


def _query_scoped(block: LexborNode, text: str, query: Callable[[LexborNode, str], _Result]) -> _Result:
    block.attrs[_MARK] = ""
    try:
        return query(block, text)
    finally:
        del block.attrs[_MARK]


class FunctionalPseudoClass(Struct, frozen=True):
    """A `:is(…)`, `:where(…)` or `:not(…)` whose arguments hold combinators."""

    head: str
    """The text up to and including the opening bracket."""
    selector_list: "SelectorList"


class CompoundSelector(Struct, frozen=True):
    """A compound selector and the combinator before it."""

    combinator: str
    """` `, `>`, `+`, `~`, or empty for the first step."""
    parts: tuple[str | FunctionalPseudoClass, ...]


class SelectorList(Struct, frozen=True):
    """Alternatives (between commas), each a sequence of compound selectors."""

    alternatives: tuple[tuple[CompoundSelector, ...], ...]

    @property
    def self_contained(self) -> bool:
        """Whether a match depends only on the node and its siblings, not on its ancestors."""
        return all(len(steps) == 1 and not _has_pseudo_class(steps) for steps in self.alternatives)

    @property
    def speed(self) -> Speed:
        return max(map(_speed_of, self.alternatives))

    def scope(self, mark: str, *, nested: bool = False) -> str:
        """The text of a selector that matches only below the node that the selector `mark` matches.

        Only that node and those below it count as ancestors and siblings. `nested`: the list is the argument of a
        pseudo-class, so the marked node itself may match.
        """
        texts: list[str] = []
        for steps in self.alternatives:
            first, *rest = (_scope_compound(step, mark) for step in steps)
            if rest:
                # Ancestors and siblings of the outermost match are outside too, so it alone has to be inside.
                below = "".join(step.combinator + text for step, text in zip(steps[1:], rest, strict=True))
                texts += [f"{first}{mark}{below}", f"{mark} {first}{below}"]
            else:
                texts.append(first if nested else f"{first}:not({mark})")
        return ", ".join(texts)


def _scope_compound(step: CompoundSelector, mark: str) -> str:
    return "".join(
        part if isinstance(part, str) else f"{part.head}{part.selector_list.scope(mark, nested=True)})"
        for part in step.parts
    )


def read_selector(text: str) -> tuple[str, SelectorList]:
    """The selector as Lexbor finds all its matches, and its parts. Raises `ValueError` and `LexborError`."""
    LexborHTMLParser("").css(text)
    text = add_universal(text)
    return text, parse_selector(text)  # Lexbor closes brackets and strings that are open at the end


def parse_selector(text: str) -> SelectorList:
    """Parses a selector. Raises `ValueError` for unbalanced brackets or strings, or misplaced combinators."""
    alternatives = tuple(_parse_compounds(part) for part in _split_commas(text))
    return SelectorList(alternatives)


def add_universal(text: str) -> str:
    """The selector with `*` before each pseudo-class that begins a compound.

    Lexbor finds nothing for `:is(.a) p`, `:not(.b) p` or `:has(i) ~ p`, but does for `*:is(.a) p`. Raises `ValueError`
    for unbalanced brackets or strings.
    """
    parts, start, at, is_first = list[str](), 0, 0, True
    while at < len(text):
        if is_first and text[at] == ":" and text[at + 1 : at + 2] != ":":
            parts += [text[start:at], "*"]
            start = at
        head = next((name for name in _WITH_SELECTORS if text[at : at + len(name)].lower() == name), None)
        is_first = text[at] in _WHITESPACE + ">+~,"
        if head is None:
            at = _skip_token(text, at)
            continue
        opening = at + len(head)
        at = _skip_token(text, opening - 1)
        parts += [text[start:opening], add_universal(text[opening : at - 1])]
        start = at - 1
    return "".join([*parts, text[start:]])


def _speed_of(steps: tuple[CompoundSelector, ...]) -> Speed:
    searches = sum(step.combinator == " " for step in steps)
    if searches > _MAX_SEARCHES or _has_pseudo_class(steps) or any(step.combinator == "~" for step in steps):
        return Speed.SLOW
    if any(isinstance(part, str) and _SLOW_PSEUDO_CLASS.search(part) for step in steps for part in step.parts):
        return Speed.SLOW
    return Speed.QUICK if searches == 0 else Speed.QUICK_IF_PLAIN


def _has_pseudo_class(steps: tuple[CompoundSelector, ...]) -> bool:
    return any(isinstance(part, FunctionalPseudoClass) for step in steps for part in step.parts)


def _split_commas(text: str) -> list[str]:
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == ",":
            parts.append(text[start:at])
            start = at = at + 1
        else:
            at = _skip_token(text, at)
    parts.append(text[start:])
    return parts


def _parse_compounds(text: str) -> tuple[CompoundSelector, ...]:
    text = text.strip(_WHITESPACE)
    steps: list[CompoundSelector] = []
    combinator, start, at = "", 0, 0
    while at < len(text):
        if text[at] not in _WHITESPACE + ">+~":
            at = _skip_token(text, at)
            continue
        steps.append(_parse_compound(combinator, text[start:at]))
        start = at
        while text[at] in _WHITESPACE + ">+~":
            at += 1
            if at == len(text):
                raise ValueError("the selector ends with a combinator")
        combinator = text[start:at].strip(_WHITESPACE) or " "
        if len(combinator) > 1:
            raise ValueError(f"two combinators in a row: {combinator}")
        start = at
    steps.append(_parse_compound(combinator, text[start:]))
    return tuple(steps)


def _parse_compound(combinator: str, compound: str) -> CompoundSelector:
    if not compound:
        raise ValueError("a part of the selector is empty")
    parts: list[str | FunctionalPseudoClass] = []
    start = at = 0
    while at < len(compound):
        head = next((name for name in _PSEUDO_CLASSES if compound[at : at + len(name)].lower() == name), None)
        if head is None:
            at = _skip_token(compound, at)
            continue
        opening = at + len(head) - 1
        end = _skip_token(compound, opening)
        inner = parse_selector(compound[opening + 1 : end - 1])
        if not inner.self_contained:
            parts += [compound[start:at], FunctionalPseudoClass(head, inner)]
            start = end
        at = end
    parts.append(compound[start:])
    return CompoundSelector(combinator, tuple(part for part in parts if part))


def _skip_token(text: str, at: int) -> int:
    """The index after the character, escape, string or bracket that starts at `at`."""
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char in "\"'":
        at += 1
        while at < len(text) and text[at] != char:
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            raise ValueError("a string is not closed")
        return at + 1
    if char in ")]":
        raise ValueError(f"unmatched `{char}`")
    if text[at : at + 2] == "/*":
        raise ValueError("comments in selectors are not supported")
    if char in _CLOSING_BRACKETS:
        at += 1
        while at < len(text) and text[at] != _CLOSING_BRACKETS[char]:
            at = _skip_token(text, at)
        if at >= len(text):
            raise ValueError(f"`{char}` is not closed")
    return at + 1
