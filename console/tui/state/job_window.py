"""A window on a list of jobs that is too long to be read: what lies around the cursor, reread as it changes.

Lines before the ones in sight are kept as they were read; the ones in sight, and some beyond, are read anew at each
look. A list that is slow to search is looked at less often. Knows nothing of widgets.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.store.db.filter import EVERY_JOB, Filter
from engine.store.read.browse import Cursor, JobLine, Listing

_KEPT, _DROPPED = 4_000, 1_000
_SHARE = 15
"""A reading may take this part of the time, at most: one that took 10 ms is done again after 150 ms."""


class Jobs(Protocol):
    """What a window is read from."""

    def jobs(self, run: int, wanted: Filter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """The next jobs behind a place, or before it."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What a reading gave. `at`: its place in the window; -1: before the first line; -2: the end of the list."""

    at: int
    lines: tuple[JobLine, ...]
    next: Cursor | None
    took: float
    generation: int


@dataclass(slots=True)
class Window:
    """Lines of the list, `lines[0]` being its first one where `whole_start` holds."""

    wanted: Filter = EVERY_JOB
    lines: list[JobLine] = field(default_factory=list)
    whole_start: bool = True
    whole_end: bool = False
    searching: bool = True
    first: int = 0
    page: int = 40
    generation: int = 0
    _resume: Cursor | None = None
    _due: float = 0.0
    _jump: bool = False

    def begin(self, wanted: Filter) -> None:
        """Another list, from its start."""
        self.wanted, self.lines, self.whole_start, self.whole_end = wanted, [], True, False
        self.searching, self.first, self._resume, self._due, self._jump = True, 0, None, 0.0, False
        self.generation += 1

    def jump(self) -> None:
        """To the end of the list."""
        self._jump, self._due, self.searching = True, 0.0, True

    def hurry(self) -> None:
        """Read at the next look, whatever it costs."""
        self._due = 0.0

    def short(self) -> bool:
        """Whether lines are missing that a page more, up or down, would show."""
        return (not self.whole_end and self.first + 2 * self.page > len(self.lines)) or (
            not self.whole_start and self.first < self.page
        )

    def reading(self) -> Callable[[Jobs, int], Found | None]:
        """What the poller does next, as things stand now."""
        if time.monotonic() < self._due:
            return _nothing
        wanted, generation = self.wanted, self.generation
        if self._jump:
            return self._reader(wanted, None, -2, self.page * 2, generation, backwards=True)
        if self._resume is not None and self.searching:
            return self._reader(wanted, self._resume, len(self.lines), self.page * 2, generation)
        if not self.whole_start and self.lines and self.first < self.page:
            return self._reader(wanted, self.lines[0].cursor, -1, self.page * 2, generation, backwards=True)
        at = min(self.first, len(self.lines))
        after = self.lines[at - 1].cursor if at else None
        if not at and not self.whole_start and self.lines:
            at, after = 1, self.lines[0].cursor
        return self._reader(wanted, after, at, self.page * 2, generation)

    @staticmethod
    def _reader(
        wanted: Filter, after: Cursor | None, at: int, limit: int, generation: int, *, backwards: bool = False
    ) -> Callable[[Jobs, int], Found]:
        def read(source: Jobs, run: int) -> Found:
            began = time.monotonic()
            found = source.jobs(run, wanted, after, limit, backwards=backwards)
            return Found(at, found.lines, found.next, time.monotonic() - began, generation)

        return read

    def take(self, found: Found) -> int:
        """Take a reading in; returns by how much lines moved down (negative: up), for the cursor to move along."""
        if found.generation != self.generation:
            return 0
        self._due = time.monotonic() + found.took * _SHARE
        if found.at == -2:
            self.lines, self.whole_start, self.whole_end = list(reversed(found.lines)), found.next is None, True
            self._jump, self.searching, self._resume = False, False, None
            return 0
        if found.at == -1:
            self.lines[:0] = reversed(found.lines)
            self.whole_start = found.next is None and not found.lines
            self._due = 0.0
            return len(found.lines)
        del self.lines[found.at :]
        self.lines += found.lines
        self.whole_end = found.next is None
        self.searching = found.next is not None and len(self.lines) < self.first + self.page
        self._resume = found.next if self.searching else None
        if self.searching:
            self._due = 0.0
        return self._drop()

    def _drop(self) -> int:
        if len(self.lines) <= _KEPT or self.first <= _DROPPED + self.page:
            return 0
        del self.lines[:_DROPPED]
        self.whole_start = False
        return -_DROPPED


def _nothing(_source: Jobs, _run: int) -> None:
    """It is too early to read again."""
