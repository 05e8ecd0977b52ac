"""Runs users' regular expressions with a time limit."""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import regex

SEARCH_LIMIT = 0.5
"""Seconds one search may take."""

_LOCKED_SEARCH_LIMIT = 0.02
"""Seconds a search may hold the GIL. Releasing it costs more than most searches take, so only patterns that once
exceeded this limit release it."""

PAGE_LIMIT = 1.0
"""Seconds all searches of one pattern may take on one page."""


_HARMLESS_ESCAPE = re.compile(r"\\[^A-Za-z0-9]|\\[dDwWsSbB]")
_NOT_BOUNDED = re.compile(r"[{(\\]")
"""Without these a pattern has no group, counted repeat or reference: `_unlimited_length` bounds how it backtracks."""
_UNLIMITED_CHARACTERS, _UNLIMITED_STEPS = 1_000, 2_500
"""Length of text, and steps of backtracking, up to which a search has no time limit, which would take longer than most
searches. At most 2 ms, for a long pattern or where each character is replaced."""

MAX_REPLACED_CHARACTERS = 10_000_000
"""Of the texts that replace matches in one value: a pattern may match at every character."""

_T = TypeVar("_T")


class PatternTimeout(Exception):
    """A pattern exceeded its time limit."""


class OutOfTime(Exception):
    """The page takes longer than the caller can wait: somebody who can is to extract it."""


class TimeBudget:
    """The time that patterns may still use on one page. `deadline` applies to all records of the page."""

    __slots__ = ("_spent", "_stop_at", "deadline")

    def __init__(self, seconds: float, patience: float | None = None) -> None:
        """`patience`: seconds after which the caller gets `OutOfTime`, whatever is done by then; None: no such."""
        now = time.monotonic()
        self.deadline = now + seconds
        self._stop_at = None if patience is None else now + patience
        self._spent: dict[TimedPattern, float] = {}

    @property
    def expired(self) -> bool:
        """Whether the time for the page has run out."""
        return time.monotonic() > self.deadline

    def check_patience(self) -> None:
        """Raises `OutOfTime` once the caller's patience has run out."""
        if self._stop_at is not None and time.monotonic() > self._stop_at:
            raise OutOfTime

    @property
    def patience_left(self) -> float | None:
        """Seconds the caller can still wait; None: as long as it takes. Raises `OutOfTime` when none are left."""
        if self._stop_at is None:
            return None
        left = self._stop_at - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def remaining_for(self, pattern: "TimedPattern") -> float:
        """Seconds the next search of the pattern may take. Raises `PatternTimeout` when none are left."""
        left = PAGE_LIMIT - self._spent.get(pattern, 0.0)
        if left <= 0:
            raise PatternTimeout(f"the pattern {pattern.quoted} took more than {PAGE_LIMIT:g} s on this page")
        return min(left, SEARCH_LIMIT)

    def record(self, pattern: "TimedPattern", seconds: float) -> None:
        """Records the duration of a search."""
        self._spent[pattern] = self._spent.get(pattern, 0.0) + seconds


class TimedPattern:
    """A compiled pattern. Raises `ValueError` if it cannot be compiled."""

    __slots__ = ("_compiled", "_releases_lock", "_unlimited_length", "quoted")

    def __init__(self, text: str) -> None:
        self._releases_lock = False
        self._unlimited_length = _unlimited_length(text)
        self.quoted = repr(text if len(text) <= 60 else text[:59] + "…")
        try:
            self._compiled = regex.compile(text)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            raise ValueError(f"the pattern {self.quoted} cannot be compiled: {error}") from error

    def find(self, text: str, budget: TimeBudget) -> str | None:
        """The first match: group 1 if the pattern has one, else the whole match. Raises `PatternTimeout`."""
        match = self._search(self._compiled.search, text, budget)
        return None if match is None else match.group(1 if self._compiled.groups else 0)

    def find_all(self, text: str, budget: TimeBudget, limit: int = 10_000) -> list[str]:
        """All matches (as `find`), at most `limit`. Raises `PatternTimeout`."""
        group = 1 if self._compiled.groups else 0
        matches: list[str] = []
        began, allowed = time.monotonic(), budget.remaining_for(self)
        try:
            for match in self._compiled.finditer(text, timeout=allowed, concurrent=True):
                matches.append(match.group(group) or "")
                if len(matches) >= limit:
                    break
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} did not finish within {allowed:g} s") from None
        finally:
            budget.record(self, time.monotonic() - began)
        return matches

    def has_match(self, text: str, budget: TimeBudget) -> bool:
        """Whether the pattern matches anywhere in the text, such as a URL. Raises `PatternTimeout`."""
        return self._search(self._compiled.search, text, budget) is not None

    def fullmatch(self, text: str, budget: TimeBudget) -> bool:
        """Whether the whole text matches. Raises `PatternTimeout`."""
        return self._search(self._compiled.fullmatch, text, budget) is not None

    def replace(self, template: str, text: str, budget: TimeBudget) -> str:
        r"""The text with all matches replaced by the template, in which `\1` is a group.

        Raises `PatternTimeout`, and `ValueError` if the replacements are too long.
        """
        has_groups = "\\" in template

        def substitute(text: str, **limits: Any) -> str:
            written = 0

            def expand(match: "regex.Match[str]") -> str:
                nonlocal written
                part: str = match.expand(template) if has_groups else template
                written += len(part)
                if written > MAX_REPLACED_CHARACTERS:
                    raise ValueError(f"{self.quoted} in `replace` writes over {MAX_REPLACED_CHARACTERS:,} characters")
                return part

            # Nothing cannot grow; it needs no call for each match.
            return str(self._compiled.sub(expand if template else "", text, **limits))

        return self._search(substitute, text, budget)

    def _search(self, search: Callable[..., _T], text: str, budget: TimeBudget) -> _T:
        allowed = budget.remaining_for(self)
        patience = budget.patience_left
        if patience is not None:
            try:
                return self._search_within(min(allowed, patience), search, text, concurrent=False)
            except TimeoutError:
                raise OutOfTime from None
        began = time.monotonic()
        try:
            if not self._releases_lock:
                try:
                    seconds = min(allowed, _LOCKED_SEARCH_LIMIT)
                    return self._search_within(seconds, search, text, concurrent=False)
                except TimeoutError:
                    self._releases_lock = True
            return self._search_within(allowed, search, text, concurrent=True)
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} did not finish within {allowed:g} s") from None
        finally:
            budget.record(self, time.monotonic() - began)

    def _search_within(self, seconds: float, search: Callable[..., _T], text: str, *, concurrent: bool) -> _T:
        """Raises TimeoutError. Without a time limit where the search cannot take long."""
        if len(text) <= self._unlimited_length:
            return search(text)
        return search(text, timeout=seconds, concurrent=concurrent)


def _unlimited_length(pattern: str) -> int:
    """The longest text that is searched without a time limit; negative: none is.

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
