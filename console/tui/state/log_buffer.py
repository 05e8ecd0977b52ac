"""The log as a console holds it: the last lines, fed by looks, filtered by level, source and pattern."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from console.tui.state.source import Lines, Source
from engine.store.read.snapshot import Snapshot
from engine.store.tables.events import Event

KEPT = 5_000
_ONCE = 500
LEVELS = ("INFO", "WARNING", "ERROR")


@dataclass(slots=True)
class Tail:
    """Lines of a run, newest last, at most KEPT of them."""

    lines: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=KEPT))
    run: int = 0
    cursor: int = 0

    def take(self, run: int, found: Lines) -> int:
        """Add what was read; returns how many lines are new."""
        if run != self.run:
            self.lines.clear()
            self.run, self.cursor = run, 0
        new = [line for line in found if line[0] > self.cursor]
        if new:
            self.lines.extend(new)
            self.cursor = new[-1][0]
        return len(new)

    def reading(self, source: Source, look: Snapshot) -> tuple[int, Lines]:
        """The run and what came since; after a pause or in full flow the last of it. For the poller's thread."""
        if look.run is None:
            return 0, []
        run, last = look.run.seq, source.last_event()
        return run, source.events(run, max(self.cursor if run == self.run else 0, last - _ONCE), _ONCE)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which lines are shown."""

    level: str = "INFO"
    sources: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    negated: bool = False

    def lets(self, event: Event) -> bool:
        """Whether a line passes."""
        if LEVELS.index(event.level) < LEVELS.index(self.level):
            return False
        if self.sources and event.source not in self.sources:
            return False
        if self.pattern is None:
            return True
        return (self.pattern.search(f"{event.source} {event.text}") is None) == self.negated

    def through(self, lines: Iterator[tuple[int, Event]]) -> list[tuple[int, Event]]:
        """The lines that pass."""
        return [line for line in lines if self.lets(line[1])]


def pattern(text: str) -> re.Pattern[str] | None:
    """A search as typed: a regular expression, or the text itself where it is none; no letter case."""
    if not text:
        return None
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(text), re.IGNORECASE)
