"""A window onto a long job list: holds the lines around the cursor, rereads the visible ones.

The visible lines and a page above and below them are read again at each poll: lines from above take the place of
visible ones that left the list. Those further up are kept as read. A list that is slow to query is polled less often.
"""

import time
from collections.abc import Callable

from msgspec import Struct, field

from crawl_console.crawl.source import DataSource
from crawl_engine.store.db.filter import ALL_JOBS, JobFilter
from crawl_engine.store.read.browse import Cursor, JobLine

_MAX_LINES, _TRIM_LINES = 4_000, 1_000
_REST_FACTOR = 15
"""A query that took 10 ms runs again after 150 ms at the earliest."""
_MAX_REST = 3.0
"""A query that a lock, a busy machine or a stopped console held up says nothing of how slow the list is to query."""


class WindowPage(Struct, frozen=True):
    """A query's result. `position`: its index in the window; -1: before the first line; -2: the end of the list."""

    position: int
    lines: tuple[JobLine, ...]
    next_cursor: Cursor | None
    duration: float
    generation: int


class JobWindow(Struct):
    """Lines of the list. `has_start`, `has_end`: whether they reach the start and the end of the list."""

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
    """Grows when lines get another index: the answers to queries from before then are ignored."""
    anchor: JobLine | None = None
    """The job under the cursor: however many come before it, the window is read down to it."""
    _resume_cursor: Cursor | None = None
    _next_read_at: float = 0.0
    _end_requested: bool = False

    def reset(self, job_filter: JobFilter) -> None:
        self.job_filter, self.lines, self.has_start, self.has_end = job_filter, [], True, False
        self.searching, self.first_visible, self.anchor = True, 0, None
        self._resume_cursor, self._next_read_at, self._end_requested = None, 0.0, False
        self.dropped_lines = 0
        self.generation += 1

    def jump_to_end(self) -> None:
        """Query the end of the list next."""
        self._end_requested, self._next_read_at, self.searching = True, 0.0, True

    @property
    def lost_anchor(self) -> bool:
        """Whether the job under the cursor may come further down; one that left the list is not searched for long."""
        anchor = self.anchor
        return (
            anchor is not None
            and self.has_start
            and not self.has_end
            and len(self.lines) < _TRIM_LINES
            and not any(line.id == anchor.id for line in self.lines)
            and not (self.lines and self._comes_before(anchor, self.lines[-1]))
        )

    def _comes_before(self, line: JobLine, other: JobLine) -> bool:
        """Whether a line stands before another in the list: failed jobs newest first, others by id."""
        newest_first = self.job_filter.matched_states == {"failed"}
        return line.cursor > other.cursor if newest_first else line.id < other.id

    def needs_lines(self) -> bool:
        """Whether scrolling one page up or down would show lines that are not loaded."""
        return (not self.has_end and self.first_visible + 2 * self.page_size > len(self.lines)) or (
            not self.has_start and self.first_visible < self.page_size
        )

    def next_query(self) -> Callable[[DataSource, int], WindowPage | None]:
        """The next query, for the poller's thread."""
        if time.monotonic() < self._next_read_at:
            return _skip_read
        if self._end_requested:
            return self._make_query(None, -2, backwards=True)
        if self._resume_cursor is not None and self.searching:
            return self._make_query(self._resume_cursor, len(self.lines))
        if not self.has_start and self.lines and self.first_visible < self.page_size:
            return self._make_query(self.lines[0].cursor, -1, backwards=True)
        position = max(0, min(self.first_visible, len(self.lines)) - self.page_size)
        after = self.lines[position - 1].cursor if position else None
        if not position and not self.has_start and self.lines:
            position, after = 1, self.lines[0].cursor
        return self._make_query(after, position)

    def _make_query(
        self, after: Cursor | None, position: int, *, backwards: bool = False
    ) -> Callable[[DataSource, int], WindowPage]:
        job_filter, limit, generation = self.job_filter, self.page_size * (2 if backwards else 3), self.generation

        def read(source: DataSource, run: int) -> WindowPage:
            started = time.monotonic()
            listing = source.jobs(run, job_filter, after, limit, backwards=backwards)
            return WindowPage(position, listing.lines, listing.next, time.monotonic() - started, generation)

        return read

    def apply(self, page: WindowPage) -> int:
        """Merge a result; returns by how many lines the window moved down (negative: up), so the cursor can follow."""
        if page.generation != self.generation or page.position > len(self.lines):
            return 0
        self._next_read_at = time.monotonic() + min(page.duration * _REST_FACTOR, _MAX_REST)
        if page.position == -2:
            self.lines, self.has_start, self.has_end = list(reversed(page.lines)), page.next_cursor is None, True
            self._end_requested, self.searching, self._resume_cursor, self.dropped_lines = False, False, None, 0
            self.generation += 1
            return 0
        if page.position == -1:
            self.lines[:0] = reversed(page.lines)
            self.has_start = page.next_cursor is None and not page.lines
            self._next_read_at = 0.0
            self.dropped_lines = max(0, self.dropped_lines - len(page.lines))
            self.generation += 1
            return len(page.lines)
        if 0 < page.position < len(self.lines) and not page.lines and page.next_cursor is None:
            self.jump_to_end()  # all lines in view have left the list, and so may those above them
            return 0
        del self.lines[page.position :]
        self.lines += page.lines
        self.has_end = page.next_cursor is None
        self.searching = page.next_cursor is not None and (
            len(self.lines) < self.first_visible + self.page_size or self.lost_anchor
        )
        self._resume_cursor = page.next_cursor if self.searching else None
        if self.searching:
            self._next_read_at = 0.0
        return self._trim()

    def _trim(self) -> int:
        if len(self.lines) <= _MAX_LINES or self.first_visible <= _TRIM_LINES + self.page_size:
            return 0
        del self.lines[:_TRIM_LINES]
        self.has_start = False
        self.dropped_lines += _TRIM_LINES
        self.generation += 1
        return -_TRIM_LINES


def _skip_read(_source: DataSource, _run: int) -> None:
    """Do nothing: it is too early to query again."""
