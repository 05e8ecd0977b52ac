"""Writes `page_repeats`: streaks of pages of one sequence with the same text and fields."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from crawl_engine.errors import plural
from crawl_engine.model.job import JobState
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Commit, Effect, Extracted, JobOutcome
from crawl_engine.store.tables.run.events import Event

WARNING_PAGES = 10
"""A streak of so many pages is worth a warning."""
_READ = """
SELECT p.sequence, p.digest, p.pages, p.pattern, p.longest, p.longest_pattern, p.skipped
FROM json_each(?) i CROSS JOIN page_repeats p ON p.sequence = i.value
"""
_WRITE = """
INSERT INTO page_repeats (sequence, digest, pages, pattern, longest, longest_pattern, skipped) {values}
ON CONFLICT (sequence) DO UPDATE SET digest = excluded.digest, pages = excluded.pages, pattern = excluded.pattern,
    longest = excluded.longest, longest_pattern = excluded.longest_pattern, skipped = excluded.skipped
"""
_END = """
UPDATE page_repeats SET digest = 0, pages = 0, pattern = ''
WHERE sequence IN (SELECT value FROM json_each(?)) AND pages > 0
"""
"""Ends the streaks of sequences: their next page is unlike the last one."""
_FOUND = """
SELECT h.key AS host, s.grp AS "group", p.longest_pattern AS pattern, p.longest AS pages, p.skipped FROM page_repeats p
JOIN sequences s ON s.id = p.sequence JOIN hosts h ON h.id = s.host
WHERE p.longest > 0 AND s.run = ? ORDER BY p.sequence
"""


class PageSeen(Effect):
    """What a page gave, and how long a streak may become before further pages are skipped."""

    digest: int
    """A number; 0: it is unlike the page before."""
    max_repeats: int | None = None


class LongStreak(NamedTuple):
    """Pages of a host and a group that gave the same, one after the other."""

    host: str
    group: str
    pattern: str
    """Of their URLs."""
    pages: int
    skipped: int


class _Streak(Struct):
    """The current streak of a sequence, and its longest one."""

    sequence: int
    digest: int = 0
    pages: int = 0
    """The length of the current streak."""
    pattern: str = ""
    longest: int = 0
    """The length of the longest streak that is worth a warning; 0: none was."""
    longest_pattern: str = ""
    skipped: int = 0

    def add(self, seen: PageSeen, url: str) -> bool:
        """Count a page; whether it is skipped."""
        is_same = self.pages > 0 and seen.digest == self.digest != 0
        self.pattern = widen_pattern(self.pattern, url) if is_same else url
        self.digest, self.pages = seen.digest, self.pages + 1 if is_same else 1
        is_skipped = seen.max_repeats is not None and self.pages > seen.max_repeats
        self.skipped += is_skipped
        if self.pages >= self.longest and (is_skipped or self.pages >= WARNING_PAGES):
            self.longest, self.longest_pattern = self.pages, self.pattern
        return is_skipped


def settle(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """Skip pages beyond `max_repeats`: they give no rows and lead nowhere."""
    made = [(outcome, seen) for outcome, seen in _find(outcomes) if seen.max_repeats is not None]
    streaks = _read(commit.db, made) if made else {}
    for outcome, seen in made:
        if streaks[outcome.job.sequence].add(seen, outcome.job.url):
            outcome.state = JobState.SKIPPED
            outcome.reason = f"the same as the {plural(seen.max_repeats or 0, 'page')} before it (max_repeats)"
            kept = [effect for effect in outcome.effects if not isinstance(effect, (Extracted, Event))]
            event = Event(
                time.time(), "INFO", "store", "page", f"SKIPPED: {outcome.reason}  {outcome.job.url}", outcome.job.id
            )
            outcome.effects = (*(PluginRun({}) if isinstance(one, PluginRun) else one for one in kept), event)
    return ()


def write(commit: Commit, made: Sequence[tuple[JobOutcome, PageSeen]]) -> None:
    """Count pages that were accepted, in their order."""
    accepted = _find([outcome for outcome, _ in made])
    alike = {outcome.job.sequence for outcome, seen in accepted if seen.digest}
    if unlike := {outcome.job.sequence for outcome, _ in accepted} - alike:
        commit.db.execute(_END, (id_list(unlike),))
    accepted = [(outcome, seen) for outcome, seen in accepted if outcome.job.sequence in alike]
    streaks = _read(commit.db, accepted) if accepted else {}
    for outcome, seen in accepted:
        streaks[outcome.job.sequence].add(seen, outcome.job.url)
    commit.db.execute_values(
        _WRITE,
        [
            (one.sequence, one.digest, one.pages, one.pattern, one.longest, one.longest_pattern, one.skipped)
            for one in streaks.values()
        ],
    )


def list_found(db: Database, run: int) -> list[LongStreak]:
    """The longest streak of each sequence, if it is worth a warning."""
    return db.rows(LongStreak, _FOUND, (run,))


def widen_pattern(pattern: str, url: str) -> str:
    """A pattern that fits both: `*` stands for the parts of path and query that differ."""
    path, _, query = pattern.partition("?")
    other_path, _, other_query = url.partition("?")
    path = _widen(path.split("/"), other_path.split("/"), "/")
    query = _widen(query.split("&"), other_query.split("&"), "&")
    return f"{path}?{query}" if query else path


def _widen(parts: Sequence[str], others: Sequence[str], separator: str) -> str:
    if len(parts) == len(others):
        return separator.join([_widen_part(*pair) for pair in zip(parts, others, strict=True)])
    same = next((at for at, pair in enumerate(zip(parts, others, strict=False)) if pair[0] != pair[1]), None)
    kept = parts[: min(len(parts), len(others)) if same is None else same]
    return separator.join([*kept, "*"])


def _widen_part(part: str, other: str) -> str:
    if part == other:
        return part
    name, equals, _ = part.partition("=")
    return f"{name}=*" if equals and other.startswith(f"{name}=") else "*"


def _find(outcomes: Sequence[JobOutcome]) -> list[tuple[JobOutcome, PageSeen]]:
    """The pages that are done, or are skipped as repeats."""
    found = [(outcome, outcome.find(PageSeen)) for outcome in outcomes]
    return [(o, seen) for o, seen in found if seen is not None and o.state in (JobState.DONE, JobState.SKIPPED)]


def _read(db: Database, made: Sequence[tuple[JobOutcome, PageSeen]]) -> dict[int, _Streak]:
    sequences = sorted({outcome.job.sequence for outcome, _ in made})
    stored = {streak.sequence: streak for streak in db.rows(_Streak, _READ, (id_list(sequences),))}
    return {sequence: stored.get(sequence) or _Streak(sequence) for sequence in sequences}
