"""Runs regular expressions of the defs with a time limit."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from crawl_engine.errors import quote_text
from crawl_engine.late_regex import late_regex

if TYPE_CHECKING:
    import regex

SEARCH_LIMIT = 0.5
"""Seconds one search may take."""

_LOCKED_SEARCH_LIMIT = 0.02
"""Seconds a search may hold the GIL. Only patterns that once exceeded them release it: that costs time, too."""

PAGE_LIMIT = 1.0
"""Seconds the slow searches of one pattern may take on one page."""

_SLOW_SEARCH = 0.01
"""Seconds from which a search is slow."""

_HARMLESS_ESCAPE = late_regex(r"\\[^A-Za-z0-9]|\\[dDwWsSbB]")
_NOT_BOUNDED = late_regex(r"[{(\\]")
"""Without these a pattern has no group, counted repeat or reference, and `_unlimited_length` bounds its
backtracking."""
_UNLIMITED_CHARACTERS, _UNLIMITED_STEPS = 1_000, 20_000
"""Length of text, and steps of backtracking, up to which a search has no time limit: setting one costs more."""

_LITERAL = late_regex(r"[^\\^$.|?*+()\[\]{}]+")
_CHARACTER_SET = late_regex(r"\[([^\\\[\]^&|~-]+)\]")
"""Matches patterns that are a text, or one of some characters: `str.replace` is faster."""

MAX_REPLACED_CHARACTERS = 10_000_000
"""For the texts that replace matches in one value: a pattern may match at every character."""

_T = TypeVar("_T")


class PatternTimeout(Exception):
    """A pattern exceeded its time limit."""


class OutOfTime(Exception):
    """The page takes longer than the caller can wait; an extraction process has more time."""


class TimeBudget:
    """The time that patterns may still use on one page, and the caller's patience for the page."""

    __slots__ = ("_spent", "_stop_at")

    def __init__(self, patience: float | None = None) -> None:
        """`patience`: seconds after which `OutOfTime` is raised; None: never."""
        self._stop_at = None if patience is None else time.monotonic() + patience
        self._spent: dict[TimedPattern, float] = {}

    def check_patience(self) -> None:
        if self._stop_at is not None and time.monotonic() > self._stop_at:
            raise OutOfTime

    @property
    def patience_left(self) -> float | None:
        """Seconds the caller can still wait; None: without limit. Raises `OutOfTime` after them."""
        if self._stop_at is None:
            return None
        left = self._stop_at - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def remaining_for(self, pattern: "TimedPattern") -> float:
        """Seconds the next search of the pattern may take. Raises `PatternTimeout` if its time is used up."""
        left = PAGE_LIMIT - self._spent.get(pattern, 0.0)
        if left <= 0:
            raise PatternTimeout(f"slow searches of {pattern.quoted} took more than {PAGE_LIMIT:g} s on this page")
        return min(left, SEARCH_LIMIT)

    def record(self, pattern: "TimedPattern", seconds: float) -> None:
        """Records the duration of a search; only slow ones count."""
        if seconds >= _SLOW_SEARCH:
            self._spent[pattern] = self._spent.get(pattern, 0.0) + seconds


class TimedPattern:
    """A compiled pattern. Raises `ValueError` if it cannot be compiled."""

    __slots__ = ("_releases_lock", "_unlimited_length", "compiled", "quoted")

    def __init__(self, text: str) -> None:
        import regex  # takes a while, and defs without patterns do not need it

        self._releases_lock = False
        self._unlimited_length = _unlimited_length(text)
        self.quoted = quote_text(text)
        try:
            self.compiled = regex.compile(text)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            raise ValueError(f"the pattern {self.quoted} cannot be compiled: {error}") from error

    def find(self, text: str, budget: TimeBudget) -> str | None:
        """The first match: group 1 if the pattern has one, else the whole match. Raises `PatternTimeout`."""
        match = self.search(text, budget)
        return None if match is None else match.group(1 if self.compiled.groups else 0)

    def search(self, text: str, budget: TimeBudget) -> "regex.Match[str] | None":
        """The first match. Raises `PatternTimeout`."""
        return self.search_within_limits(self.compiled.search, text, budget)

    def find_all(self, text: str, budget: TimeBudget, limit: int = 10_000) -> list[str]:
        """All matches (as `find`), at most `limit`. Raises `PatternTimeout`."""
        group = 1 if self.compiled.groups else 0
        matches: list[str] = []
        began, allowed = time.monotonic(), budget.remaining_for(self)
        try:
            for match in self.compiled.finditer(text, timeout=allowed, concurrent=True):
                matches.append(match.group(group) or "")
                if len(matches) >= limit:
                    break
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} did not finish within {allowed:g} s") from None
        finally:
            budget.record(self, time.monotonic() - began)
        return matches

    def has_match(self, text: str, budget: TimeBudget) -> bool:
        """Whether the pattern matches anywhere in the text. Raises `PatternTimeout`."""
        return self.search_within_limits(self.compiled.search, text, budget) is not None

    def fullmatch(self, text: str, budget: TimeBudget) -> bool:
        """Whether the whole text matches. Raises `PatternTimeout`."""
        return self.search_within_limits(self.compiled.fullmatch, text, budget) is not None

    def search_within_limits(self, search: Callable[..., _T], text: str, budget: TimeBudget) -> _T:
        """Call a search method of the pattern. Raises `PatternTimeout` and `OutOfTime`."""
        is_quick = len(text) <= self._unlimited_length
        patience = budget.patience_left
        if patience is not None:
            if is_quick:
                return search(text)
            try:
                return search(text, timeout=min(budget.remaining_for(self), patience), concurrent=False)
            except TimeoutError:
                raise OutOfTime from None
        allowed = budget.remaining_for(self)
        began = time.monotonic()
        try:
            if is_quick:
                return search(text)
            if not self._releases_lock:
                try:
                    return search(text, timeout=min(allowed, _LOCKED_SEARCH_LIMIT), concurrent=False)
                except TimeoutError:
                    self._releases_lock = True
            return search(text, timeout=allowed, concurrent=True)
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} did not finish within {allowed:g} s") from None
        finally:
            budget.record(self, time.monotonic() - began)


class Replacement:
    r"""A compiled pattern and the template that replaces its matches, in which `\1` is a group. Raises `ValueError`."""

    __slots__ = ("_literals", "_pattern", "_template")

    def __init__(self, pattern: str, template: str) -> None:
        self._pattern = TimedPattern(pattern)
        self._template = template
        self._literals = _literals_of(pattern, template)

    def apply(self, text: str, budget: TimeBudget) -> str:
        """The text with all matches replaced. Raises `PatternTimeout`, and `ValueError` if the result is too long."""
        if not self._literals or not self._is_short(text):
            return self._pattern.search_within_limits(self._substitute, text, budget)
        for literal in self._literals:
            text = text.replace(literal, self._template)
        return text

    def _is_short(self, text: str) -> bool:
        """Whether the result cannot be too long, even if the pattern matches everywhere."""
        return (len(text) + 1) * len(self._template) <= MAX_REPLACED_CHARACTERS

    def _substitute(self, text: str, **limits: Any) -> str:
        template, has_groups = self._template, "\\" in self._template
        if not has_groups and self._is_short(text):
            return str(self._pattern.compiled.sub(template, text, **limits))
        written = 0

        def expand(match: "regex.Match[str]") -> str:
            nonlocal written
            part: str = match.expand(template) if has_groups else template
            written += len(part)
            if written > MAX_REPLACED_CHARACTERS:
                quoted = self._pattern.quoted
                raise ValueError(f"{quoted} in `replace` writes over {MAX_REPLACED_CHARACTERS:,} characters")
            return part

        return str(self._pattern.compiled.sub(expand, text, **limits))


def _literals_of(pattern: str, template: str) -> tuple[str, ...]:
    """Literal texts whose replacements, one after another, equal the pattern's; empty if it needs a search."""
    if "\\" in template:
        return ()
    if _LITERAL.fullmatch(pattern):
        return (pattern,)
    characters = _CHARACTER_SET.fullmatch(pattern)
    if characters is None or any(character in template for character in characters[1]):
        return ()
    return tuple(dict.fromkeys(characters[1]))


def _unlimited_length(pattern: str) -> int:
    """The longest text that is searched without a time limit; negative: every text has a limit.

    At each of n characters a search tries each alternative, each repeat (`*`, `+`) with up to n lengths, and each `?`
    twice.
    """
    bare = _HARMLESS_ESCAPE.sub("", pattern)
    if _NOT_BOUNDED.search(bare):
        return -1
    repeats, choices = bare.count("*") + bare.count("+"), (1 + bare.count("|")) << bare.count("?")
    if repeats == 0:
        return _UNLIMITED_CHARACTERS // choices
    return int((_UNLIMITED_STEPS / choices) ** (1 / (1 + repeats)))
