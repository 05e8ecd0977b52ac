"""The log as a console holds it: the last lines, fed by looks, filtered by level, source and pattern."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from console.filter_syntax import SearchPattern
from console.tui.state.source import DataSource, LogLines
from engine.store.read.snapshot import Snapshot
from engine.store.tables.events import Event

MAX_LINES = 5_000
_BATCH_LINES = 500
LEVELS = ("INFO", "WARNING", "ERROR")


@dataclass(slots=True)
class LogBuffer:
    """Lines of a run, newest last, at most KEPT of them."""

    lines: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    run: int = 0
    last_id: int = 0

    def add(self, run: int, found: LogLines) -> int:
        """Add what was read; returns how many lines are new."""
        if run != self.run:
            self.lines.clear()
            self.run, self.last_id = run, 0
        new = [line for line in found if line[0] > self.last_id]
        if new:
            self.lines.extend(new)
            self.last_id = new[-1][0]
        return len(new)

    def read_new(self, source: DataSource, look: Snapshot) -> tuple[int, LogLines]:
        """The run and what came since; after a pause or in full flow the last of it. For the poller's thread."""
        if look.run is None:
            return 0, []
        run, last = look.run.seq, source.last_event_id()
        return run, source.events(run, max(self.last_id if run == self.run else 0, last - _BATCH_LINES), _BATCH_LINES)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are shown."""

    level: str = "INFO"
    sources: frozenset[str] = frozenset()
    pattern: SearchPattern | None = None
    negated: bool = False

    def accepts(self, event: Event) -> bool:
        """Whether a line passes."""
        if LEVELS.index(event.level) < LEVELS.index(self.level):
            return False
        if self.sources and event.source not in self.sources:
            return False
        if self.pattern is None:
            return True
        return (self.pattern.search(f"{event.source} {event.text}") is None) == self.negated

    def filter_lines(self, lines: Iterator[tuple[int, Event]]) -> list[tuple[int, Event]]:
        """The lines that pass."""
        return [line for line in lines if self.accepts(line[1])]


def compile_pattern(text: str) -> SearchPattern | None:
    """A search as typed: a regular expression, or the text itself where it is none; no letter case."""
    return SearchPattern(text, strict=False) if text else None
