"""Folds the lines of a log: a line a reason and host, and counts of the pages that went well."""

import re
from collections import deque
from collections.abc import Iterable
from heapq import nlargest
from typing import NamedTuple

from msgspec import Struct, field

from crawl_engine.store.tables.run.events import Event

_LATENCIES = 200
_MAX_SUBJECTS = 3
"""More hosts, or nodes, of which the same is said share a line."""
_ROUTINE_KINDS = ("page", "row", "stage", "state", "node", "run")
_PAGE = re.compile(
    r"[23]\d\d +(?:(?P<seconds>[\d.]+) (?P<unit>m?s)|\w+) .* https?://(?:[^/\s@]*@)?(?P<host>[^/\s?#]+)\S*$"
)
"""The line of a page that went well: `200   84 ms   12 kB  24 rows  https://shop.example/item`."""
_URL = re.compile(r"https?://(?:[^/\s@]*@)?(?P<subject>[^/\s?#]+)(?P<path>\S*)")
_HOST = re.compile(r"(?P<subject>(?<![\w.-])[\w.-]*\w:\d{1,5}\b(?!:))")
_NODE = re.compile(r"(?P<subject>^n\d+\b)")
_RETRY = re.compile(r"; attempt \d+ \S.*")
_NUMBER = re.compile(r"(?<!HTTP )(?<!\w)\d[\d.,]*")
"""Not a status, and not the number of a node: what differs in them is not the same."""


class Reason(NamedTuple):
    """What a line says, of whom (empty: of the run), and the path of its URL."""

    text: str
    subject: str = ""
    noun: str = "host"
    path: str = ""


class FoldedLine(Struct, eq=False):
    """The newest of the lines that say the same; how many they are, by host or node."""

    id: int
    event: Event
    noun: str = ""
    """What the subjects are; empty: this line is not folded."""
    subjects: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.subjects.values()) or 1

    def add(self, id_: int, event: Event, subject: str) -> None:
        self.id, self.event = id_, event
        self.subjects[subject] = self.subjects.get(subject, 0) + 1

    def describe(self) -> tuple[str, str, str]:
        """What the lines say; how many say it of which hosts, which is never cut; the path of the newest URL."""
        if self.count == 1:
            return self.event.text, "", ""
        reason = find_reason(self.event)
        if not reason.subject or (len(self.subjects) == 1 and not reason.path):
            return self.event.text, f" ×{self.count:,}", ""
        if len(self.subjects) == 1:
            return reason.text, f" · {reason.subject} ×{self.count:,}", reason.path
        most = nlargest(_MAX_SUBJECTS, self.subjects, key=self.subjects.__getitem__)
        named = ", ".join(name + (f" ×{self.subjects[name]:,}" if self.subjects[name] > 1 else "") for name in most)
        more = " …" if len(most) < len(self.subjects) else ""
        return reason.text, f" · {len(self.subjects):,} {self.noun}s ×{self.count:,}: {named}{more}", ""


class HostPages(Struct):
    """Pages of a host that went well, and how long the last of them took, in seconds."""

    count: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))


class FoldedLines:
    """The lines of a log, newest last. A line that says what an earlier one says of the same host takes its place."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.lines: list[FoldedLine] = []
        self.pages: dict[str, HostPages] = {}
        """By host: pages that went well, which have no line. The host of the newest is the last one."""
        self._folds: dict[tuple[str, str], dict[str, FoldedLine]] = {}
        """By level and reason, then by host."""
        self._shared: dict[tuple[str, str], FoldedLine] = {}
        """By level and reason: the line of many hosts."""

    def extend(self, lines: Iterable[tuple[int, Event]], *, fold: bool, fold_pages: bool = False) -> None:
        """Add lines; `fold` folds repeats, `fold_pages` leaves out what goes as it should, and counts its pages.

        A line that is repeated stays where it is until `sort`.
        """
        for id_, event in lines:
            if fold_pages and _is_routine(event):
                if page := _PAGE.match(event.text):
                    self._count_page(page)
            elif fold and (event.level != "INFO" or event.text.startswith("SKIPPED")):
                self._fold(id_, event)
            else:
                self.lines.append(FoldedLine(id_, event))

    def sort(self) -> None:
        """Move the lines that were repeated to the end."""
        self.lines.sort(key=lambda line: line.id)

    def _fold(self, id_: int, event: Event) -> None:
        reason = find_reason(event)
        shape = (event.level, _NUMBER.sub("#", reason.text))
        folds = self._folds.setdefault(shape, {})
        line = folds.get(reason.subject) or self._shared.get(shape)
        if line is None and len(folds) == _MAX_SUBJECTS:
            line = self._shared[shape] = self._join(folds.values())
            folds.clear()
        elif line is None:
            line = folds[reason.subject] = FoldedLine(id_, event, reason.noun)
            self.lines.append(line)
        line.add(id_, event, reason.subject)

    def _join(self, lines: Iterable[FoldedLine]) -> FoldedLine:
        """Let the first line stand for all."""
        first, *others = lines
        for line in others:
            first.subjects |= line.subjects
            self.lines.remove(line)
        return first

    def _count_page(self, page: re.Match[str]) -> None:
        host = page["host"]
        pages = self.pages.pop(host, None) or HostPages()
        self.pages[host] = pages
        pages.count += 1
        if page["seconds"]:
            pages.seconds.append(float(page["seconds"]) / (1000 if page["unit"] == "ms" else 1))

    def drop_first(self, count: int) -> None:
        dropped = set(map(id, self.lines[:count]))
        del self.lines[:count]
        for shape, folds in self._folds.items():
            for subject in [subject for subject, line in folds.items() if id(line) in dropped]:
                del folds[subject]
            if shape in self._shared and id(self._shared[shape]) in dropped:
                del self._shared[shape]


def find_reason(event: Event) -> Reason:
    """What an event says without its host or node."""
    if match := _URL.search(event.text):
        text = _RETRY.sub("; asked again", f"{event.text[: match.start()].rstrip()}{event.text[match.end() :]}")
        return Reason(text, match["subject"], path=match["path"])
    pattern, noun = (_HOST, "host") if event.kind in ("host", "data") else (_NODE, "node")
    if match := pattern.search(event.text):
        return Reason(
            " ".join((event.text[: match.start()] + event.text[match.end() :]).split()), match["subject"], noun
        )
    return Reason(event.text)


def _is_routine(event: Event) -> bool:
    """Whether a line says that something went as it should; not what an operator or the defs changed."""
    return event.level == "INFO" and event.kind in _ROUTINE_KINDS and not event.text.startswith("SKIPPED")
