"""A window on a list of jobs that is too long to be read: what lies around the cursor, reread as it changes.

Lines before the ones in sight are kept as they were read; the ones in sight, and some beyond, are read anew at each
look. A list that is slow to search is looked at less often. Knows nothing of widgets.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.store.db.filter import ALL_JOBS, JobFilter
from engine.store.read.browse import Cursor, JobLine, Listing

_MAX_LINES, _TRIM_LINES = 4_000, 1_000
_REST_FACTOR = 15
"""A reading may take this part of the time, at most: one that took 10 ms is done again after 150 ms."""


class JobSource(Protocol):
    """What a window is read from."""

    def jobs(self, run: int, wanted: JobFilter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """The next jobs behind a place, or before it."""
        ...


@dataclass(frozen=True, slots=True)
class WindowPage:
    """What a reading gave. `at`: its place in the window; -1: before the first line; -2: the end of the list."""

    position: int
    lines: tuple[JobLine, ...]
    next_cursor: Cursor | None
    duration: float
    generation: int


@dataclass(slots=True)
class JobWindow:
    """Lines of the list, `lines[0]` being its first one where `whole_start` holds."""

    job_filter: JobFilter = ALL_JOBS
    lines: list[JobLine] = field(default_factory=list)
    has_start: bool = True
    has_end: bool = False
    searching: bool = True
    first_visible: int = 0
    page_size: int = 40
    dropped_lines: int = 0
    """How many lines before the first one were read and dropped."""
    generation: int = 0
    _resume_cursor: Cursor | None = None
    _next_read_at: float = 0.0
    _end_requested: bool = False

    def reset(self, wanted: JobFilter) -> None:
        """Another list, from its start."""
        self.job_filter, self.lines, self.has_start, self.has_end = wanted, [], True, False
        self.searching, self.first_visible, self._resume_cursor, self._next_read_at, self._end_requested = (
            True,
            0,
            None,
            0.0,
            False,
        )
        self.dropped_lines = 0
        self.generation += 1

    def jump_to_end(self) -> None:
        """To the end of the list."""
        self._end_requested, self._next_read_at, self.searching = True, 0.0, True

    def read_soon(self) -> None:
        """Read at the next look, whatever it costs."""
        self._next_read_at = 0.0

    def needs_lines(self) -> bool:
        """Whether lines are missing that a page more, up or down, would show."""
        return (not self.has_end and self.first_visible + 2 * self.page_size > len(self.lines)) or (
            not self.has_start and self.first_visible < self.page_size
        )

    def next_query(self) -> Callable[[JobSource, int], WindowPage | None]:
        """What the poller does next, as things stand now."""
        if time.monotonic() < self._next_read_at:
            return _skip_read
        wanted, generation = self.job_filter, self.generation
        if self._end_requested:
            return self._make_query(wanted, None, -2, self.page_size * 2, generation, backwards=True)
        if self._resume_cursor is not None and self.searching:
            return self._make_query(wanted, self._resume_cursor, len(self.lines), self.page_size * 2, generation)
        if not self.has_start and self.lines and self.first_visible < self.page_size:
            return self._make_query(wanted, self.lines[0].cursor, -1, self.page_size * 2, generation, backwards=True)
        at = min(self.first_visible, len(self.lines))
        after = self.lines[at - 1].cursor if at else None
        if not at and not self.has_start and self.lines:
            at, after = 1, self.lines[0].cursor
        return self._make_query(wanted, after, at, self.page_size * 2, generation)

    @staticmethod
    def _make_query(
        wanted: JobFilter, after: Cursor | None, at: int, limit: int, generation: int, *, backwards: bool = False
    ) -> Callable[[JobSource, int], WindowPage]:
        def read(source: JobSource, run: int) -> WindowPage:
            began = time.monotonic()
            found = source.jobs(run, wanted, after, limit, backwards=backwards)
            return WindowPage(at, found.lines, found.next, time.monotonic() - began, generation)

        return read

    def apply(self, found: WindowPage) -> int:
        """Take a reading in; returns by how much lines moved down (negative: up), for the cursor to move along."""
        if found.generation != self.generation:
            return 0
        self._next_read_at = time.monotonic() + found.duration * _REST_FACTOR
        if found.position == -2:
            self.lines, self.has_start, self.has_end = list(reversed(found.lines)), found.next_cursor is None, True
            self._end_requested, self.searching, self._resume_cursor, self.dropped_lines = False, False, None, 0
            return 0
        if found.position == -1:
            self.lines[:0] = reversed(found.lines)
            self.has_start = found.next_cursor is None and not found.lines
            self._next_read_at = 0.0
            self.dropped_lines = max(0, self.dropped_lines - len(found.lines))
            return len(found.lines)
        del self.lines[found.position :]
        self.lines += found.lines
        self.has_end = found.next_cursor is None
        self.searching = found.next_cursor is not None and len(self.lines) < self.first_visible + self.page_size
        self._resume_cursor = found.next_cursor if self.searching else None
        if self.searching:
            self._next_read_at = 0.0
        return self._trim()

    def _trim(self) -> int:
        if len(self.lines) <= _MAX_LINES or self.first_visible <= _TRIM_LINES + self.page_size:
            return 0
        del self.lines[:_TRIM_LINES]
        self.has_start = False
        self.dropped_lines += _TRIM_LINES
        return -_TRIM_LINES


def _skip_read(_source: JobSource, _run: int) -> None:
    """It is too early to read again."""
