"""The last lines of the log, fed by polls; filters them by level, source and pattern."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from console.filter_syntax import SearchPattern
from console.tui.state.source import DataSource, LogLines
from engine.store.read.snapshot import Snapshot
from engine.store.tables.run.events import Event

MAX_LINES = 5_000
_BATCH_LINES = 500
LEVEL_ROLES = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
LEVELS = tuple(LEVEL_ROLES)


class LogBuffer(Struct):
    """Lines of a run, newest last, at most MAX_LINES."""

    lines: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    run: int = 0
    last_id: int = 0

    def add(self, run: int, lines: LogLines) -> int:
        """Add lines; returns how many are new."""
        if run != self.run:
            self.lines.clear()
            self.run, self.last_id = run, 0
        new = [line for line in lines if line[0] > self.last_id]
        if new:
            self.lines.extend(new)
            self.last_id = new[-1][0]
        return len(new)

    def lines_after(self, id_: int) -> LogLines:
        """The lines with an id above that, oldest first."""
        return list(reversed(list(newest_first(self.lines, id_))))

    def read_new(self, source: DataSource, snapshot: Snapshot) -> tuple[int, LogLines]:
        """The run and its new lines, at most the newest of them after a gap. For the poller's thread."""
        if snapshot.run is None:
            return 0, []
        run, last = snapshot.run.seq, source.last_event_id()
        return run, source.events(run, max(self.last_id if run == self.run else 0, last - _BATCH_LINES), _BATCH_LINES)


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


_LATENCIES = 200
_PAGE = re.compile(
    r"[23]\d\d +(?:(?P<seconds>[\d.]+) (?P<unit>m?s)|\w+) .* https?://(?:[^/\s@]*@)?(?P<host>[^/\s?#]+)\S*$"
)
"""The line of a page that went well: `200   84 ms   12 kB  24 rows  https://shop.example/item`."""
_URL = re.compile(r"https?://\S+")
_NUMBER = re.compile(r"\d[\d.,]*")


class HostPages(Struct):
    """Pages of a host that went well, and how long the last of them took, in seconds."""

    count: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))


class FoldedLines:
    """The lines of a log, newest last. A line that repeats the one before takes its place, and counts it."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, Event]] = []
        self.pages: dict[str, HostPages] = {}
        """By host: pages that went well, which have no line. The host of the newest is the last one."""
        self._repeats: dict[int, int] = {}
        self._last_shape: tuple[str, str] | None = None

    def clear(self) -> None:
        self.lines, self.pages, self._repeats, self._last_shape = [], {}, {}, None

    def extend(self, lines: Iterable[tuple[int, Event]], *, fold: bool, fold_pages: bool = False) -> None:
        """Add lines; `fold` folds repeats, `fold_pages` leaves out the routine of nodes, and counts its pages."""
        for id_, event in lines:
            if fold_pages and _is_routine(event):
                if page := _PAGE.match(event.text):
                    self._count_page(page)
                continue
            shape = _shape(event) if fold else None
            if shape is not None and shape == self._last_shape and self.lines:
                count = self._repeats.pop(self.lines[-1][0], 1)
                self._repeats[id_] = count + 1
                self.lines[-1] = (id_, event)
            else:
                self.lines.append((id_, event))
            self._last_shape = shape

    def _count_page(self, page: re.Match[str]) -> None:
        host = page["host"]
        pages = self.pages.pop(host, None) or HostPages()
        self.pages[host] = pages
        pages.count += 1
        if page["seconds"]:
            pages.seconds.append(float(page["seconds"]) / (1000 if page["unit"] == "ms" else 1))

    def drop_first(self, count: int) -> None:
        for id_, _ in self.lines[:count]:
            self._repeats.pop(id_, None)
        del self.lines[:count]

    def count(self, id_: int) -> int:
        """How many lines this one stands for."""
        return self._repeats.get(id_, 1)


def _is_routine(event: Event) -> bool:
    """Whether a node says that something went as it should."""
    return event.level == "INFO" and event.source[1:].isdigit() and not event.text.startswith("SKIPPED")


def _shape(event: Event) -> tuple[str, str] | None:
    """The text of a problem or a skipped page without URL and numbers; None for other lines, which are not folded."""
    if event.level == "INFO" and not event.text.startswith("SKIPPED"):
        return None
    return event.level, _NUMBER.sub("#", _URL.sub("", event.text))
