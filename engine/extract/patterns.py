"""Users' regular expressions, each search with a limit of time. Knows the `regex` package; no fields, no pages."""

import time
from collections.abc import Callable

import regex

SEARCH_LIMIT = 0.5
"""Seconds one search may take."""

_UNDIVIDED = 0.02
"""Seconds a search may keep the interpreter's lock. To let it go costs more than most searches take, so it is only
done for a pattern that was once seen to need longer."""

PAGE_LIMIT = 1.0
"""Seconds all searches of one pattern may take on one page."""


_Run = Callable[..., "regex.Match[str] | None"]


class TooSlow(Exception):
    """A pattern did not come to an answer in its time."""


class Patience:
    """The time patterns may still take on one page. `deadline` is for the page's records as a whole."""

    __slots__ = ("_spent", "deadline")

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self._spent: dict[Pattern, float] = {}

    @property
    def over(self) -> bool:
        """Whether the time of the whole page is spent."""
        return time.monotonic() > self.deadline

    def allow(self, pattern: "Pattern") -> float:
        """Seconds a search of the pattern may take now. Raises `TooSlow` when none are left."""
        left = PAGE_LIMIT - self._spent.get(pattern, 0.0)
        if left <= 0:
            raise TooSlow(f"the pattern {pattern.shown} took more than {PAGE_LIMIT:g} s on this page")
        return min(left, SEARCH_LIMIT)

    def spend(self, pattern: "Pattern", seconds: float) -> None:
        """Notes what a search took."""
        self._spent[pattern] = self._spent.get(pattern, 0.0) + seconds


class Pattern:
    """A compiled expression. Raises `ValueError` for one that cannot be compiled."""

    __slots__ = ("_compiled", "_slow", "shown")

    def __init__(self, text: str) -> None:
        self._slow = False
        self.shown = repr(text if len(text) <= 60 else text[:59] + "…")
        try:
            self._compiled = regex.compile(text)
        except (regex.error, ValueError, RecursionError, OverflowError, LookupError) as error:
            raise ValueError(f"the pattern {self.shown} cannot be compiled: {error}") from error

    def picked(self, text: str, patience: Patience) -> str | None:
        """What a search finds: group 1 if the pattern has one, else the match. Raises `TooSlow`."""
        found = self._run(self._compiled.search, text, patience)
        return None if found is None else found.group(1 if self._compiled.groups else 0)

    def each(self, text: str, patience: Patience, limit: int = 10_000) -> list[str]:
        """What repeated searches pick, one after the other, `limit` at most. Raises `TooSlow`."""
        group = 1 if self._compiled.groups else 0
        found: list[str] = []
        began, allowed = time.monotonic(), patience.allow(self)
        try:
            for match in self._compiled.finditer(text, timeout=allowed, concurrent=True):
                found.append(match.group(group) or "")
                if len(found) >= limit:
                    break
        except TimeoutError:
            raise TooSlow(f"the pattern {self.shown} found no end within {allowed:g} s") from None
        finally:
            patience.spend(self, time.monotonic() - began)
        return found

    def found_in(self, text: str, patience: Patience) -> bool:
        """Whether a search finds anything. Raises `TooSlow`."""
        return self._run(self._compiled.search, text, patience) is not None

    def fits(self, text: str, patience: Patience) -> bool:
        """Whether the whole text matches. Raises `TooSlow`."""
        return self._run(self._compiled.fullmatch, text, patience) is not None

    def _run(self, search: _Run, text: str, patience: Patience) -> "regex.Match[str] | None":
        allowed = patience.allow(self)
        began = time.monotonic()
        try:
            if not self._slow:
                try:
                    return search(text, timeout=min(allowed, _UNDIVIDED), concurrent=False)
                except TimeoutError:
                    self._slow = True
            return search(text, timeout=allowed, concurrent=True)
        except TimeoutError:
            raise TooSlow(f"the pattern {self.shown} found no answer within {allowed:g} s") from None
        finally:
            patience.spend(self, time.monotonic() - began)
