"""Splits a CSS selector at its commas and combinators."""

import re

from msgspec import Struct

from engine.extract.cost import Cost

_WHITESPACE = " \t\n\r\f"
_COSTLY_PSEUDO_CLASS = re.compile(r":(?:nth-|has\(|[a-z]+-of-type)", re.IGNORECASE)
_CLOSING_BRACKETS = {"(": ")", "[": "]"}
_PSEUDO_CLASSES = (":is(", ":where(", ":not(")
_WITH_SELECTORS = (*_PSEUDO_CLASSES, ":has(")


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

    @property
    def cost(self) -> Cost:
        """How the parser's time for this step may grow."""
        return max(Cost.SQUARE if self.combinator == "~" else Cost.LINEAR, *[_cost_of(part) for part in self.parts])


class SelectorList(Struct, frozen=True):
    """Alternatives (between commas), each a sequence of compound selectors."""

    alternatives: tuple[tuple[CompoundSelector, ...], ...]

    @property
    def self_contained(self) -> bool:
        """Whether a match depends only on the node and its siblings, not on its ancestors."""
        return all(len(steps) == 1 and not _has_pseudo_class(steps) for steps in self.alternatives)

    def count_searches(self, combinator: str) -> int:
        """How many of these combinators (` ` or `~`) the longest alternative has, those in pseudo-classes included.

        Each is a search: with n of them the parser tries n-tuples of ancestors (or of siblings) for one node.
        """
        return max(
            sum(
                (step.combinator == combinator)
                + sum(part.selector_list.count_searches(combinator) for part in step.parts if not isinstance(part, str))
                for step in steps
            )
            for steps in self.alternatives
        )

    @property
    def cost(self) -> Cost:
        """How the parser's time may grow with the number of siblings and descendants."""
        return max((step.cost for steps in self.alternatives for step in steps), default=Cost.LINEAR)

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


def parse_selector(text: str) -> SelectorList:
    """Parses a selector. Raises `ValueError` for unbalanced brackets or strings, or misplaced combinators."""
    alternatives = tuple(_parse_compounds(part) for part in _split_commas(text))
    return SelectorList(alternatives)


def add_universal(text: str) -> str:
    """The selector with `*` before each pseudo-class that nothing stands before.

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


def _cost_of(part: str | FunctionalPseudoClass) -> Cost:
    if not isinstance(part, str):
        return part.selector_list.cost
    pseudo_classes = {match.lower() for match in _COSTLY_PSEUDO_CLASS.findall(part)}
    if ":has(" in pseudo_classes:  # a search of its own for each element, of any cost
        return Cost.CUBE
    return Cost.SQUARE if pseudo_classes else Cost.LINEAR


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
