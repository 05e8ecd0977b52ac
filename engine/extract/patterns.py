"""Users' regular expressions, each search with a limit of time. Knows the `regex` package; no fields, no pages."""

import time
from collections.abc import Callable

import regex

SEARCH_LIMIT = 0.5
"""Seconds one search may take."""

_LOCKED_SEARCH_LIMIT = 0.02
"""Seconds a search may keep the interpreter's lock. To let it go costs more than most searches take, so it is only
done for a pattern that was once seen to need longer."""

PAGE_LIMIT = 1.0
"""Seconds all searches of one pattern may take on one page."""


_SearchFunction = Callable[..., "regex.Match[str] | None"]


class PatternTimeout(Exception):
    """A pattern did not come to an answer in its time."""


class TimeBudget:
    """The time patterns may still take on one page. `deadline` is for the page's records as a whole."""

    __slots__ = ("_spent", "deadline")

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self._spent: dict[TimedPattern, float] = {}

    @property
    def expired(self) -> bool:
        """Whether the time of the whole page is spent."""
        return time.monotonic() > self.deadline

    def remaining_for(self, pattern: "TimedPattern") -> float:
        """Seconds a search of the pattern may take now. Raises `TooSlow` when none are left."""
        left = PAGE_LIMIT - self._spent.get(pattern, 0.0)
        if left <= 0:
            raise PatternTimeout(f"the pattern {pattern.quoted} took more than {PAGE_LIMIT:g} s on this page")
        return min(left, SEARCH_LIMIT)

    def record(self, pattern: "TimedPattern", seconds: float) -> None:
        """Notes what a search took."""
        self._spent[pattern] = self._spent.get(pattern, 0.0) + seconds


class TimedPattern:
    """A compiled expression. Raises `ValueError` for one that cannot be compiled."""

    __slots__ = ("_compiled", "_releases_lock", "quoted")

    def __init__(self, text: str) -> None:
        self._releases_lock = False
        self.quoted = repr(text if len(text) <= 60 else text[:59] + "…")
        try:
            self._compiled = regex.compile(text)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            raise ValueError(f"the pattern {self.quoted} cannot be compiled: {error}") from error

    def find(self, text: str, patience: TimeBudget) -> str | None:
        """What a search finds: group 1 if the pattern has one, else the match. Raises `TooSlow`."""
        found = self._search(self._compiled.search, text, patience)
        return None if found is None else found.group(1 if self._compiled.groups else 0)

    def find_all(self, text: str, patience: TimeBudget, limit: int = 10_000) -> list[str]:
        """What repeated searches pick, one after the other, `limit` at most. Raises `TooSlow`."""
        group = 1 if self._compiled.groups else 0
        found: list[str] = []
        began, allowed = time.monotonic(), patience.remaining_for(self)
        try:
            for match in self._compiled.finditer(text, timeout=allowed, concurrent=True):
                found.append(match.group(group) or "")
                if len(found) >= limit:
                    break
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} found no end within {allowed:g} s") from None
        finally:
            patience.record(self, time.monotonic() - began)
        return found

    def has_match(self, text: str, patience: TimeBudget) -> bool:
        """Whether a search finds anything. Raises `TooSlow`."""
        return self._search(self._compiled.search, text, patience) is not None

    def fullmatch(self, text: str, patience: TimeBudget) -> bool:
        """Whether the whole text matches. Raises `TooSlow`."""
        return self._search(self._compiled.fullmatch, text, patience) is not None

    def _search(self, search: _SearchFunction, text: str, patience: TimeBudget) -> "regex.Match[str] | None":
        allowed = patience.remaining_for(self)
        began = time.monotonic()
        try:
            if not self._releases_lock:
                try:
                    return search(text, timeout=min(allowed, _LOCKED_SEARCH_LIMIT), concurrent=False)
                except TimeoutError:
                    self._releases_lock = True
            return search(text, timeout=allowed, concurrent=True)
        except TimeoutError:
            raise PatternTimeout(f"the pattern {self.quoted} found no answer within {allowed:g} s") from None
        finally:
            patience.record(self, time.monotonic() - began)
