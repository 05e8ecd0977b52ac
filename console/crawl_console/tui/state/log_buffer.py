"""The last lines of the log, fed by polls; filters them by level, source and pattern."""

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from crawl_console.crawl.source import DataSource, LogLines
from crawl_console.filter_syntax import SearchPattern
from crawl_console.words.job_lines import LEVEL_ROLES
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.run.events import Event

MAX_LINES = 5_000
_MAX_TROUBLE, _BATCH_LINES = 1_000, 500
LEVELS = tuple(LEVEL_ROLES)


class LogBuffer(Struct):
    """Lines of a run, newest last, at most MAX_LINES. Warnings and errors stay when newer lines push them out."""

    lines: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    trouble: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=_MAX_TROUBLE))
    run: int = 0
    last_id: int = 0

    def add(self, run: int, lines: LogLines) -> int:
        """Add lines; returns how many are new."""
        if run != self.run:
            self.lines.clear()
            self.trouble.clear()
            self.run, self.last_id = run, 0
        new = [line for line in lines if line[0] > self.last_id]
        if new:
            self.lines.extend(new)
            self.trouble.extend(line for line in new if line[1].level != "INFO")
            self.last_id = new[-1][0]
        return len(new)

    def lines_after(self, id_: int) -> LogLines:
        """The lines with an id above that, oldest first."""
        newest = list(reversed(list(newest_first(self.lines, id_))))
        first = newest[0][0] if newest else self.last_id + 1
        kept = [line for line in newest_first(self.trouble, id_) if line[0] < first]
        return [*reversed(kept), *newest]

    def read_new(self, source: DataSource, snapshot: Snapshot) -> tuple[int, LogLines]:
        """The run and its new lines; of a gap all trouble, and the newest of the rest. For the poller's thread."""
        if snapshot.run is None:
            return 0, []
        run, last = snapshot.run.seq, source.last_event_id()
        known = self.last_id if run == self.run else 0
        after = max(known, last - _BATCH_LINES)
        missed = source.trouble(run, known, after, _MAX_TROUBLE) if after > known else []
        return run, [*missed, *source.events(run, after, _BATCH_LINES)]


class LogFilter(Struct, frozen=True):
    """Which lines are shown."""

    level: str = "INFO"
    sources: frozenset[str] = frozenset()
    pattern: SearchPattern | None = None
    negated: bool = False

    def accepts(self, event: Event) -> bool:
        if LEVELS.index(event.level) < LEVELS.index(self.level):
            return False
        if self.sources and event.source not in self.sources:
            return False
        if self.pattern is None:
            return True
        return (self.pattern.search(f"{event.source} {event.text}") is None) == self.negated


def newest_first(lines: Sequence[tuple[int, Event]], after: int) -> Iterator[tuple[int, Event]]:
    """The lines with an id above `after`, newest first."""
    for line in reversed(lines):
        if line[0] <= after:
            return
        yield line


def compile_pattern(text: str) -> SearchPattern | None:
    """Compile a search: a regular expression, else the literal text; case-insensitive."""
    return SearchPattern(text, strict=False) if text else None
