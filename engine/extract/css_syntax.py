"""A CSS selector taken apart at its commas and combinators. Text only; evaluates nothing, knows no parser."""

from dataclasses import dataclass

_WHITESPACE = " \t\n\r\f"
_CLOSING_BRACKETS = {"(": ")", "[": "]"}
_PSEUDO_CLASSES = (":is(", ":where(", ":not(")


@dataclass(frozen=True, slots=True)
class FunctionalPseudoClass:
    """A `:is(…)`, `:where(…)` or `:not(…)` whose arguments hold combinators."""

    head: str
    """Up to and with the opening bracket."""
    selector_list: "SelectorList"


@dataclass(frozen=True, slots=True)
class CompoundSelector:
    """A compound selector, and how it hangs on the one before."""

    combinator: str
    """` `, `>`, `+`, `~`, or empty for the first step."""
    parts: tuple[str | FunctionalPseudoClass, ...]


@dataclass(frozen=True, slots=True)
class SelectorList:
    """Alternatives (the commas) of steps (the combinators)."""

    alternatives: tuple[tuple[CompoundSelector, ...], ...]

    @property
    def self_contained(self) -> bool:
        """Whether a node matches by itself and its siblings, whatever its ancestors are."""
        return all(len(steps) == 1 and not _has_pseudo_class(steps) for steps in self.alternatives)

    @property
    def cheap(self) -> bool:
        """Whether no node needs more than one search through its ancestors or siblings.

        With n such searches in one selector a parser tries n-tuples of ancestors: 1,000 nested `div`
        and `a div div div` take five minutes.
        """
        return all(
            not _has_pseudo_class(steps) and sum(step.combinator in (" ", "~") for step in steps) <= 1
            for steps in self.alternatives
        )


def parse_selector(text: str) -> SelectorList:
    """The parts of a selector. Raises `ValueError` where brackets, strings or combinators do not come out even."""
    alternatives = tuple(_parse_compounds(part) for part in _split_commas(text))
    return SelectorList(alternatives)


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
        query = parse_selector(compound[opening + 1 : end - 1])
        if not query.self_contained:
            parts += [compound[start:at], FunctionalPseudoClass(head, query)]
            start = end
        at = end
    parts.append(compound[start:])
    return CompoundSelector(combinator, tuple(part for part in parts if part))


def _skip_token(text: str, at: int) -> int:
    """The place after the character, escape, string or bracket that begins at `at`."""
    sign = text[at]
    if sign == "\\":
        return min(at + 2, len(text))
    if sign in "\"'":
        at += 1
        while at < len(text) and text[at] != sign:
            at += 2 if text[at] == "\\" else 1
        if at >= len(text):
            raise ValueError("a string is not closed")
        return at + 1
    if sign in ")]":
        raise ValueError(f"a `{sign}` closes nothing")
    if text[at : at + 2] == "/*":
        raise ValueError("comments in selectors are not supported")
    if sign in _CLOSING_BRACKETS:
        at += 1
        while at < len(text) and text[at] != _CLOSING_BRACKETS[sign]:
            at = _skip_token(text, at)
        if at >= len(text):
            raise ValueError(f"a `{sign}` is not closed")
    return at + 1
