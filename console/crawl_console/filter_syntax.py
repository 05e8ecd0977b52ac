"""Parses the filter grammar, by which an operator selects jobs or events.

    host:shop.example state:failed group:g node:n2 reason:"HTTP 500" age>5m attempts>2 timeout !robots "two words"

All terms must match; of several terms with the same key, one must. A bare word is a regular expression, searched in URL
and reason, ignoring case. A leading `!` negates a term. Quotes keep spaces together and turn a key into plain text; a
value in quotes is literal: `*` in it matches itself.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import regex
from msgspec.structs import replace

from crawl_engine.errors import UsageError, suggest
from crawl_engine.model.host import HostState
from crawl_engine.model.job import JobKind
from crawl_engine.model.step import OUTCOMES
from crawl_engine.store.db.filter import (
    FILTER_STATES,
    Comparison,
    EventFilter,
    GlobFilter,
    HostFilter,
    JobFilter,
    Operator,
)

SEARCH_TIMEOUT = 0.1
"""Seconds that the search of one text may take."""
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
"""A pattern without these is plain text, whose search is never slow."""
_ESCAPED_PUNCTUATION = re.compile(r"\\[!-/:-@\[-`{-~]")
_LIKE_PART = re.compile(rf"{_ESCAPED_PUNCTUATION.pattern}|[.%_]")
"""What stands for something else in a pattern of LIKE."""
_MAX_LIKE = 10_000
"""SQLite refuses patterns of 50,000 bytes."""

_TERM = re.compile(r'(!?)(?:"((?:[^"\\]|\\.)*)"(?=\s|$)|([A-Za-z][\w-]*:"(?:[^"\\]|\\.)*"(?=\s|$)|\S+))\s*')
_KEY_VALUE = re.compile(r"([A-Za-z][\w-]*):(?!//)(\S*|\".*\")", re.DOTALL)
_COMPARISON = re.compile(r"([A-Za-z][\w-]*)(<=|>=|<|>)(\S*)")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNIT_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INVERSE: dict[str, Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

_ATTEMPTS = " (* attempt*)"
"""What stands behind the cause of a job that failed after several attempts."""
JOB_KEYS = ("host", "state", "group", "node", "kind", "reason", "outcome")
EVENT_KEYS = ("level", "source", "kind")
HOST_KEYS = ("host", "state")
JOB_NUMERIC_KEYS = ("age", "attempts", "crashes", "depth", "priority")
_LEVELS = ("info", "warning", "error")


class SearchPattern:
    """A regular expression that ignores case and whose searches are limited in time."""

    def __init__(self, pattern: str, *, strict: bool = True) -> None:
        """Raises UsageError if invalid; not `strict`, an invalid one is searched for as plain text."""
        self.pattern = pattern
        self._strict = strict
        self._timed_out = False
        self._timeout = None if _SPECIAL.isdisjoint(pattern) else SEARCH_TIMEOUT  # watching the time costs most
        try:
            self._compiled = regex.compile(pattern, regex.IGNORECASE)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            if strict:
                raise UsageError(
                    f"'{pattern}' is not a regular expression: {error}",
                    "Escape special characters with a backslash: \\( \\[ \\* \\+ \\?",
                ) from error
            self._compiled = regex.compile(regex.escape(pattern), regex.IGNORECASE)

    def search(self, text: str) -> Any:
        """The first match, or None. Raises UsageError on a timeout; not `strict`, nothing matches from then on."""
        if self._timed_out:
            return None
        try:
            return self._compiled.search(text, timeout=self._timeout)
        except TimeoutError:
            self._handle_timeout()
            return None

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches; errors as `search`."""
        if self._timed_out:
            return
        try:
            yield from self._compiled.finditer(text, timeout=SEARCH_TIMEOUT)
        except TimeoutError:
            self._handle_timeout()

    def _handle_timeout(self) -> None:
        if self._strict:
            raise UsageError(f"the search for '{self.pattern}' takes too long", "Write a simpler pattern.") from None
        self._timed_out = True


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A pattern that a text of a row must match; if negated, no text may match. Raises UsageError if invalid."""

    text: str
    negated: bool = False
    _pattern: SearchPattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", SearchPattern(self.text))

    @property
    def like(self) -> str | None:
        r"""The pattern as one of LIKE, if it has only plain text, `.`, and escaped characters such as `\?`."""
        if self.negated or len(self.text) > _MAX_LIKE or not self.text.isascii():  # LIKE folds ASCII letters only
            return None
        plain = _ESCAPED_PUNCTUATION.sub("", self.text).replace(".", "")
        if not _SPECIAL.isdisjoint(plain):
            return None
        return "%" + _LIKE_PART.sub(lambda part: "_" if part[0] == "." else "\\" + part[0][-1], self.text) + "%"

    def accepts(self, *texts: str) -> bool:
        """Whether a row with these texts passes. Raises UsageError if a search takes too long."""
        search = self._pattern.search  # a loop costs half of any(): it runs for each job of a run
        for text in texts:
            if text and search(text):
                return not self.negated
        return self.negated


def parse(text: str) -> JobFilter:
    """The job filter of a line. Raises UsageError with the problem and the valid words."""
    words, numbers, searches = _parse_terms(text, JOB_KEYS, JOB_NUMERIC_KEYS)
    for state in (*words["state"].include, *words["state"].exclude):
        _check_value(state, FILTER_STATES, "state")
    for kind in (*words["kind"].include, *words["kind"].exclude):
        _check_value(kind, [str(k) for k in JobKind], "kind")
    for outcome in (*words["outcome"].include, *words["outcome"].exclude):
        _check_value(outcome, OUTCOMES, "outcome")
    return JobFilter(
        text=text.strip(), states=words["state"], groups=words["group"], hosts=words["host"], nodes=words["node"],
        kinds=words["kind"] or GlobFilter((str(JobKind.PAGE),)), reasons=_with_attempts(words["reason"]),
        outcomes=words["outcome"], comparisons=numbers, searches=searches,
    )  # fmt: skip


def parse_events(text: str) -> EventFilter:
    """The event filter of a line such as `level:error source:n1 kind:page age<5m !stage`.

    Raises UsageError.
    """
    words, ages, searches = _parse_terms(text, EVENT_KEYS, ("age",))
    for level in (*words["level"].include, *words["level"].exclude):
        _check_value(level, _LEVELS, "level")
    levels = GlobFilter(tuple(map(str.upper, words["level"].include)), tuple(map(str.upper, words["level"].exclude)))
    return EventFilter(
        text=text.strip(), levels=levels, sources=words["source"], kinds=words["kind"], ages=ages, searches=searches
    )


def parse_hosts(text: str) -> HostFilter:
    """The host filter of a line such as `shop state:resting !img`. Raises UsageError."""
    words, _, searches = _parse_terms(text, HOST_KEYS, ())
    for state in (*words["state"].include, *words["state"].exclude):
        _check_value(state, [str(state) for state in HostState], "state")
    return HostFilter(text=text.strip(), hosts=words["host"], states=words["state"], searches=searches)


def quote_value(text: str) -> str:
    """A value in quotes, which a filter takes literally."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def job_filter(match: str | None, states: Sequence[str] = ()) -> JobFilter:
    """The filter of `--match`, for jobs in one of the states; `match` can only narrow them. Raises UsageError."""
    given = " ".join(f"state:{state}" for state in states)
    if match is None or _is_pattern(match, JOB_KEYS, JOB_NUMERIC_KEYS):
        searches = (TextSearch(match),) if match else ()
        text = " ".join(filter(None, (given, match)))
        return JobFilter(text=text, states=GlobFilter(tuple(states)), searches=searches)
    filter_ = parse(match)
    if not states:
        return filter_
    included = tuple(state for state in states if state in (filter_.states.include or states))
    if not included:
        raise UsageError(
            f"no job has a state of both {given} and {match}",
            "--match only narrows --state: leave out its `state:`, or give another --state.",
        )
    return replace(filter_, text=f"{given} {match}", states=GlobFilter(included, filter_.states.exclude))


def event_filter(match: str | None, levels: Sequence[str] = ()) -> EventFilter:
    """The filter of `--match`, for events of one of the levels. Raises UsageError."""
    given = [f"level:{level.lower()}" for level in levels]
    if match is None or _is_pattern(match, EVENT_KEYS, ("age",)):
        searches = (TextSearch(match),) if match else ()
        return EventFilter(levels=GlobFilter(tuple(level.upper() for level in levels)), searches=searches)
    return parse_events(" ".join([*given, match]))


def _is_pattern(text: str, keys: Sequence[str], numbers: Sequence[str]) -> bool:
    """Whether the text is one regular expression, spaces included: without quotes, `!` and keys with a value."""
    for term in _TERM.finditer(text.strip()):
        word = term[3]
        if term[1] or word is None or word.startswith('"'):
            return False
        if _COMPARISON.fullmatch(word):
            return False
        key = _KEY_VALUE.fullmatch(word)
        if key is not None and (key[1] in (*keys, *numbers) or (key[2] and not key[2][0].isdigit())):
            return False
    return True


def _parse_terms(
    text: str, keys: Sequence[str], numbers: Sequence[str]
) -> tuple[dict[str, GlobFilter], tuple[Comparison, ...], tuple[TextSearch, ...]]:
    included: dict[str, list[str]] = {key: [] for key in keys}
    excluded: dict[str, list[str]] = {key: [] for key in keys}
    comparisons: list[Comparison] = []
    searches: list[TextSearch] = []
    at, text = 0, text.strip()
    while at < len(text):
        term = _TERM.match(text, at)
        assert term is not None, "every non-blank text is a term"
        at, negated = term.end(), term[1] == "!"
        if term[2] is not None:
            searches.append(_parse_search(term[2].replace('\\"', '"'), negated))
            continue
        word = term[3]
        if word.startswith('"'):
            raise UsageError(f"unclosed quote: {word}", 'Quote a phrase as in "no answer".')
        if comparison := _COMPARISON.fullmatch(word):
            comparisons.append(_parse_comparison(comparison, numbers, negated))
        elif pair := _split_key(word, keys, numbers):
            key, value = pair
            if key in numbers:
                comparisons += _parse_equality(key, value, negated)
            else:
                (excluded if negated else included)[key] += _split_values(key, value)
        else:
            searches.append(_parse_search(word, negated))
    words = {key: GlobFilter(tuple(included[key]), tuple(excluded[key])) for key in keys}
    return words, tuple(comparisons), tuple(searches)


def _parse_search(text: str, negated: bool) -> TextSearch:
    if text in ("", "!"):
        raise UsageError("nothing to search for", "Write a word after `!`, or between the quotes.")
    return TextSearch(text, negated)


def _split_key(word: str, keys: Sequence[str], numbers: Sequence[str]) -> tuple[str, str] | None:
    """Key and value; None for a word with a colon that is text: a URL, or a host with its port."""
    match = _KEY_VALUE.fullmatch(word)
    if match is None:
        return None
    key, value = match[1], match[2]
    if key not in keys and key not in numbers:
        if value[:1].isdigit():
            return None
        _raise_unknown_key(key, keys, numbers)
    if not value:
        raise UsageError(f"no value after '{word}'", f"Write it without a space, as in {key}:x.")
    return key, value


def _split_values(key: str, value: str) -> list[str]:
    if value.startswith('"'):
        if len(value) < 2 or not value.endswith('"'):
            raise UsageError(f"unclosed quote: {value}", f'Quote a value as in {key}:"no answer".')
        return [_ESCAPE.sub(r"\1", value[1:-1]).replace("*", "\\*")]
    parts = [part for part in value.split(",") if part]
    return parts if key in ("source", "group", "reason") else [part.lower() for part in parts]


def _parse_equality(key: str, value: str, negated: bool) -> list[Comparison]:
    if negated or key == "age":
        raise UsageError(f"'{key}:{value}' is not supported", f"Use a comparison, as in {key}>2.")
    return [Comparison(cast(Any, key), "=", _parse_number(key, value))]


def _parse_comparison(match: re.Match[str], numbers: Sequence[str], negated: bool) -> Comparison:
    name, operator, value = match.groups()
    if name not in numbers:
        _raise_unknown_key(name, (), numbers)
    sign = _INVERSE[operator] if negated else cast(Operator, operator)
    return Comparison(cast(Any, name), sign, _parse_number(name, value))


def _parse_number(name: str, value: str) -> float:
    span = _QUANTITY.fullmatch(value)
    if span is None or (span[2] and name != "age"):
        example = "age>5m (s, m, h, d)" if name == "age" else f"{name}>2"
        raise UsageError(f"'{value}' is not a value of {name}", f"Write a number, as in {example}.")
    return float(span[1]) * _UNIT_SECONDS[span[2]]


def _check_value(value: str, valid: Sequence[str], key: str) -> None:
    if value not in valid:
        raise UsageError(f"unknown {key} '{value}'{suggest(value, list(valid))}", f"Valid: {', '.join(valid)}.")


def _raise_unknown_key(name: str, keys: Sequence[str], numbers: Sequence[str]) -> None:
    valid = [*(f"{key}:" for key in keys), *(f"{number}>" for number in numbers)]
    raise UsageError(
        f"unknown key '{name}'{suggest(name, [*keys, *numbers])}",
        f"Valid: {' '.join(valid)}; in quotes it is searched for as text.",
    )


def _with_attempts(reasons: GlobFilter) -> GlobFilter:
    """Reasons as they are written, and the same causes after several attempts."""
    include, exclude = ([*names, *(name + _ATTEMPTS for name in names)] for names in (reasons.include, reasons.exclude))
    return GlobFilter(tuple(include), tuple(exclude))
