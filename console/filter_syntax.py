"""The filter grammar: what an operator writes to say which jobs or events are meant. Knows no table and no screen.

    host:shop.example state:failed group:g node:n2 kind:robots age>5m attempts>2 timeout !robots "two words"

All terms must hold; of several with one key, one. A bare word is a regular expression, searched in URL and reason,
large and small letters alike. `!` in front negates a term. Quotes keep blanks together, and make a key plain text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import regex

from engine.errors import UsageError, suggest
from engine.model.job import JobKind
from engine.store.db.filter import FILTER_STATES, Comparison, EventFilter, GlobFilter, JobFilter, Operator

SEARCH_TIMEOUT = 0.1
"""A search in one text may take so long."""

_TERM = re.compile(r'(!?)(?:"((?:[^"\\]|\\.)*)"(?=\s|$)|(\S+))\s*')
_KEY_VALUE = re.compile(r"([a-z]+):(?!//)(\S*)")
_COMPARISON = re.compile(r"([a-z]+)(<=|>=|<|>)(\S*)")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?")
_UNIT_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INVERSE: dict[str, Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

JOB_KEYS = ("host", "state", "group", "node", "kind")
EVENT_KEYS = ("level", "source", "kind")
JOB_NUMERIC_KEYS = ("age", "attempts", "crashes", "depth", "priority")
_LEVELS = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A regular expression to be found in one of a row's texts, or in none of them. Raises UsageError on a bad one."""

    text: str
    negated: bool = False
    _find: Callable[..., Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            compiled = regex.compile(self.text, regex.IGNORECASE)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            raise UsageError(
                f"'{self.text}' is no regular expression: {error}",
                "A backslash makes a sign plain: \\( \\[ \\* \\+ \\?",
            ) from error
        object.__setattr__(self, "_find", compiled.search)

    def accepts(self, *texts: str) -> bool:
        """Whether a row with these texts is wanted. Raises UsageError where a search takes too long."""
        try:
            found = any(self._find(text, timeout=SEARCH_TIMEOUT) for text in texts if text)
        except TimeoutError:
            raise UsageError(f"the search for '{self.text}' takes too long", "Write a simpler pattern.") from None
        return found is not self.negated


def parse(text: str) -> JobFilter:
    """The jobs a line of the grammar means. Raises UsageError saying what is wrong, and what is known."""
    words, numbers, searches = _parse_terms(text, JOB_KEYS, JOB_NUMERIC_KEYS)
    for state in (*words["state"].include, *words["state"].exclude):
        _check_value(state, FILTER_STATES, "state")
    for kind in (*words["kind"].include, *words["kind"].exclude):
        _check_value(kind, [str(k) for k in JobKind], "kind")
    return JobFilter(
        text=text.strip(), states=words["state"], groups=words["group"], hosts=words["host"], nodes=words["node"],
        kinds=words["kind"] or GlobFilter((str(JobKind.PAGE),)), comparisons=numbers, searches=searches,
    )  # fmt: skip


def parse_events(text: str) -> EventFilter:
    """The events a line of the grammar means: `level:error source:n1 kind:page age<5m`, words and `!`.

    Raises UsageError.
    """
    words, ages, searches = _parse_terms(text, EVENT_KEYS, ("age",))
    for level in (*words["level"].include, *words["level"].exclude):
        _check_value(level, _LEVELS, "level")
    levels = GlobFilter(tuple(map(str.upper, words["level"].include)), tuple(map(str.upper, words["level"].exclude)))
    return EventFilter(
        text=text.strip(), levels=levels, sources=words["source"], kinds=words["kind"], ages=ages, searches=searches
    )


def job_filter(pattern: str | None, states: Sequence[str] = ()) -> JobFilter:
    """The jobs in one of the states in whose URL or reason a pattern is found. Raises UsageError."""
    told = [f"state:{state}" for state in states] + ([pattern] if pattern else [])
    searches = (TextSearch(pattern),) if pattern else ()
    return JobFilter(text=" ".join(told), states=GlobFilter(tuple(states)), searches=searches)


def _parse_terms(
    text: str, keys: Sequence[str], numbers: Sequence[str]
) -> tuple[dict[str, GlobFilter], tuple[Comparison, ...], tuple[TextSearch, ...]]:
    wanted: dict[str, list[str]] = {key: [] for key in keys}
    unwanted: dict[str, list[str]] = {key: [] for key in keys}
    comparisons: list[Comparison] = []
    searches: list[TextSearch] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TERM.match(text, at)
        assert found is not None, "a term is what is not blank"
        at, negated = found.end(), found[1] == "!"
        if found[2] is not None:
            searches.append(_parse_search(found[2].replace('\\"', '"'), negated))
            continue
        word = found[3]
        if word.startswith('"'):
            raise UsageError(f"a quote is not closed: {word}", 'Quote a phrase as in "no answer".')
        if compared := _COMPARISON.fullmatch(word):
            comparisons.append(_parse_comparison(compared, numbers, negated))
        elif keyed := _split_key(word, keys, numbers):
            key, value = keyed
            if key in numbers:
                comparisons += _parse_equality(key, value, negated)
            else:
                (unwanted if negated else wanted)[key] += _split_values(key, value)
        else:
            searches.append(_parse_search(word, negated))
    words = {key: GlobFilter(tuple(wanted[key]), tuple(unwanted[key])) for key in keys}
    return words, tuple(comparisons), tuple(searches)


def _parse_search(text: str, negated: bool) -> TextSearch:
    if text in ("", "!"):
        raise UsageError("nothing to search for", "Write a word behind `!`, or between the quotes.")
    return TextSearch(text, negated)


def _split_key(word: str, keys: Sequence[str], numbers: Sequence[str]) -> tuple[str, str] | None:
    """Key and value; None for a word that only looks so: a URL, or a host with its port."""
    found = _KEY_VALUE.fullmatch(word)
    if found is None:
        return None
    if found[1] not in keys and found[1] not in numbers:
        if found[2][:1].isdigit():
            return None
        _raise_unknown_key(found[1], keys, numbers)
    if not found[2]:
        raise UsageError(f"nothing behind '{word}'", f"Write it together, as in {found[1]}:x.")
    return found[1], found[2]


def _split_values(key: str, value: str) -> list[str]:
    listed = [part for part in value.split(",") if part]
    if key == "source":
        return listed
    return listed if key == "group" else [part.lower() for part in listed]


def _parse_equality(key: str, value: str, negated: bool) -> list[Comparison]:
    if negated or key == "age":
        raise UsageError(f"'{key}:{value}' cannot be told", f"Compare, as in {key}>2.")
    return [Comparison(cast(Any, key), "=", _parse_number(key, value))]


def _parse_comparison(found: re.Match[str], numbers: Sequence[str], negated: bool) -> Comparison:
    name, operator, value = found.groups()
    if name not in numbers:
        _raise_unknown_key(name, (), numbers)
    sign = _INVERSE[operator] if negated else cast(Operator, operator)
    return Comparison(cast(Any, name), sign, _parse_number(name, value))


def _parse_number(name: str, value: str) -> float:
    span = _QUANTITY.fullmatch(value)
    if span is None or (span[2] and name != "age"):
        example = "age>5m (s, m, h, d)" if name == "age" else f"{name}>2"
        raise UsageError(f"'{value}' cannot be compared with {name}", f"Write a number, as in {example}.")
    return float(span[1]) * _UNIT_SECONDS[span[2]]


def _check_value(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise UsageError(f"unknown {what} '{value}'{suggest(value, list(known))}", f"Known: {', '.join(known)}.")


def _raise_unknown_key(name: str, keys: Sequence[str], numbers: Sequence[str]) -> None:
    known = [*(f"{key}:" for key in keys), *(f"{number}>" for number in numbers)]
    raise UsageError(
        f"unknown key '{name}'{suggest(name, [*keys, *numbers])}",
        f"Known: {' '.join(known)}; in quotes it is searched for as text.",
    )
