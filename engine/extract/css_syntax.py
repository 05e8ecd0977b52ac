"""A CSS selector taken apart at its commas and combinators. Text only; evaluates nothing, knows no parser."""

from dataclasses import dataclass

_SPACE = " \t\n\r\f"
_CLOSING = {"(": ")", "[": "]"}
_LISTS = (":is(", ":where(", ":not(")


@dataclass(frozen=True, slots=True)
class Choice:
    """A `:is(…)`, `:where(…)` or `:not(…)` whose arguments hold combinators."""

    head: str
    """Up to and with the opening bracket."""
    query: "Query"


@dataclass(frozen=True, slots=True)
class Step:
    """A compound selector, and how it hangs on the one before."""

    combinator: str
    """` `, `>`, `+`, `~`, or empty for the first step."""
    parts: tuple[str | Choice, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Alternatives (the commas) of steps (the combinators)."""

    alternatives: tuple[tuple[Step, ...], ...]

    @property
    def plain(self) -> bool:
        """Whether a node matches by itself and its siblings, whatever its ancestors are."""
        return all(len(steps) == 1 and not _choices(steps) for steps in self.alternatives)

    @property
    def cheap(self) -> bool:
        """Whether no node needs more than one search through its ancestors or siblings.

        With n such searches in one selector a parser tries n-tuples of ancestors: 1,000 nested `div`
        and `a div div div` take five minutes.
        """
        return all(
            not _choices(steps) and sum(step.combinator in (" ", "~") for step in steps) <= 1
            for steps in self.alternatives
        )


def split(text: str) -> Query:
    """The parts of a selector. Raises `ValueError` where brackets, strings or combinators do not come out even."""
    alternatives = tuple(_steps(part) for part in _commas(text))
    return Query(alternatives)


def _choices(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(part, Choice) for step in steps for part in step.parts)


def _commas(text: str) -> list[str]:
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == ",":
            parts.append(text[start:at])
            start = at = at + 1
        else:
            at = _past(text, at)
    parts.append(text[start:])
    return parts


def _steps(text: str) -> tuple[Step, ...]:
    text = text.strip(_SPACE)
    steps: list[Step] = []
    combinator, start, at = "", 0, 0
    while at < len(text):
        if text[at] not in _SPACE + ">+~":
            at = _past(text, at)
            continue
        steps.append(_step(combinator, text[start:at]))
        start = at
        while text[at] in _SPACE + ">+~":
            at += 1
            if at == len(text):
                raise ValueError("the selector ends with a combinator")
        combinator = text[start:at].strip(_SPACE) or " "
        if len(combinator) > 1:
            raise ValueError(f"two combinators in a row: {combinator}")
        start = at
    steps.append(_step(combinator, text[start:]))
    return tuple(steps)


def _step(combinator: str, compound: str) -> Step:
    if not compound:
        raise ValueError("a part of the selector is empty")
    parts: list[str | Choice] = []
    start = at = 0
    while at < len(compound):
        head = next((name for name in _LISTS if compound[at : at + len(name)].lower() == name), None)
        if head is None:
            at = _past(compound, at)
            continue
        opening = at + len(head) - 1
        end = _past(compound, opening)
        query = split(compound[opening + 1 : end - 1])
        if not query.plain:
            parts += [compound[start:at], Choice(head, query)]
            start = end
        at = end
    parts.append(compound[start:])
    return Step(combinator, tuple(part for part in parts if part))


def _past(text: str, at: int) -> int:
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
    if sign in _CLOSING:
        at += 1
        while at < len(text) and text[at] != _CLOSING[sign]:
            at = _past(text, at)
        if at >= len(text):
            raise ValueError(f"a `{sign}` is not closed")
    return at + 1
