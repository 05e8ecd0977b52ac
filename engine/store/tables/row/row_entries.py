"""Writes a temporary database of digests, to compare the rows of two runs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from engine.store.db.connector import Database

_TABLES = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, side INTEGER, row INTEGER, job INTEGER, key BLOB, content BLOB)",
    "CREATE TABLE pairs (old INTEGER, new INTEGER, job INTEGER)",
    "CREATE TABLE pages (job INTEGER PRIMARY KEY, verdict TEXT NOT NULL, host TEXT NOT NULL)",
)
_INDEXES = (
    "CREATE INDEX pairs_new ON pairs(new) WHERE new IS NOT NULL",
    "CREATE INDEX pairs_job ON pairs(job) WHERE new IS NULL",
    "CREATE INDEX pairs_old ON pairs(old) WHERE new IS NULL",
)
_ADD = "INSERT INTO entries (id, side, row, job, key, content) {values}"
_SORTED = """
SELECT key, content, side, row, job FROM entries WHERE id >= ? AND id < ? ORDER BY key, content, side, row
"""
_ADD_PAIRS = "INSERT INTO pairs (old, new, job) {values}"
_ADD_PAGES = "INSERT INTO pages (job, verdict, host) {values}"
_MISSING_JOBS = "SELECT DISTINCT job FROM pairs WHERE new IS NULL AND job > ? ORDER BY job LIMIT +?"
_HOSTS = "SELECT DISTINCT host FROM pages WHERE verdict = ?"
_PRESENT = "SELECT old, new FROM pairs WHERE new > ? ORDER BY new LIMIT +?"
_OF_VANISHED = """
FROM pairs p JOIN pages ON pages.job = p.job WHERE p.new IS NULL AND p.old > :after
    AND pages.verdict = :judged AND pages.host NOT IN (SELECT value FROM json_each(:unsure))
"""
_VANISHED = f"SELECT p.old {_OF_VANISHED} ORDER BY p.old LIMIT +:limit"
_COUNT_VANISHED = f"SELECT count(*) {_OF_VANISHED}"
_COUNT_MISSING = """
SELECT pages.verdict, count(*) FROM pairs p JOIN pages ON pages.job = p.job WHERE p.new IS NULL GROUP BY pages.verdict
"""
_BATCH = 1_024
_PARTS, _PART_BITS, _SIDE_BITS = 64, 56, 55
"""Rows are kept and sorted in parts, by the first bits of their keys: some builds of SQLite sort in memory alone."""
OLD, NEW = 0, 1
"""The sides: the earlier run, and the later one."""
_Row = tuple[int, int]
"""A row and its job."""


class RowEntry(NamedTuple):
    """A row of a run, with the digests of its key and of its content; in the order of its columns."""

    side: int
    row: int
    job: int
    key: bytes
    content: bytes


class RowEntries:
    """The rows of two runs, paired by key and content. `path`: of a new file, which the caller deletes."""

    def __init__(self, path: Path) -> None:
        self._db = Database.open(path, durable=False)
        try:
            # it lives as long as one command: nothing has to survive a crash
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("PRAGMA synchronous = OFF")
            for table in _TABLES:
                self._db.execute(table)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, entries: Sequence[RowEntry]) -> None:
        """Add rows of either run."""
        with self._db.transaction():
            self._db.execute_values(_ADD, sorted([(_place(entry), *entry) for entry in entries]))

    def pair(self) -> None:
        """Pair the rows of both runs: equal ones first, then those of a key in their order.

        Kept are the pairs that differ, and the rows whose key the other run lacks. Where a key has more rows in one run
        than in the other, the rest is neither new nor missing: its key is in both.
        """
        with self._db.transaction():
            found: list[tuple[int | None, int | None, int | None]] = []
            for old, new, is_in_both in self._unequal_groups():
                if not is_in_both:
                    found += [(row, None, job) for row, job in old]
                    found += [(None, row, None) for row, _ in new]
                else:
                    pairs = zip(sorted(old), sorted(new), strict=False)
                    found += [(before, after, None) for (before, _), (after, _) in pairs]
                if len(found) >= _BATCH:
                    self._db.execute_values(_ADD_PAIRS, found)
                    found = []
            self._db.execute_values(_ADD_PAIRS, found)
            for index in _INDEXES:
                self._db.execute(index)

    def _unequal_groups(self) -> Iterator[tuple[list[_Row], list[_Row], bool]]:
        """By key: the rows of each run without an equal one in the other, and whether both runs have the key."""
        for _, of_key in groupby(self._read_sorted(), key=itemgetter(0)):
            rest: tuple[list[_Row], list[_Row]] = ([], [])
            sides: set[int] = set()
            for _, of_content in groupby(of_key, key=itemgetter(1)):
                equal: tuple[list[_Row], list[_Row]] = ([], [])
                for _, _, side, row, job in of_content:
                    equal[side].append((row, job))
                sides.update(side for side in (OLD, NEW) if equal[side])
                if len(equal[OLD]) != len(equal[NEW]):
                    matched = min(map(len, equal))
                    for all_left, rows in zip(rest, equal, strict=True):
                        all_left.extend(rows[matched:])
            if rest[OLD] or rest[NEW]:
                yield *rest, len(sides) > 1

    def _read_sorted(self) -> Iterator[tuple[bytes, bytes, int, int, int]]:
        for part in range(_PARTS):
            cursor = self._db.execute(_SORTED, (part << _PART_BITS, (part + 1) << _PART_BITS))
            while batch := cursor.fetchmany(_BATCH):
                yield from batch

    def missing_jobs(self, after: int, limit: int) -> list[int]:
        """The next jobs of the earlier run that gave rows which the later one lacks."""
        return [int(job) for (job,) in self._db.all(_MISSING_JOBS, (after, limit))]

    def add_pages(self, pages: Iterable[tuple[int, str, str]]) -> None:
        """Record of jobs of the earlier run what became of their pages in the later one: job, verdict, host."""
        with self._db.transaction():
            self._db.execute_values(_ADD_PAGES, list(pages))

    def hosts(self, verdict: str) -> set[str]:
        """The hosts of pages with that verdict."""
        return {str(host) for (host,) in self._db.all(_HOSTS, (verdict,))}

    def count_missing(self) -> dict[str, int]:
        """By verdict on their page: how many rows of the earlier run the later one lacks."""
        return {str(verdict): int(count) for verdict, count in self._db.all(_COUNT_MISSING)}

    def list_present(self, after: int, limit: int) -> list[tuple[int | None, int]]:
        """The next rows of the later run that are new, or differ: their row of the earlier run, and they themselves."""
        return self._db.all(_PRESENT, (after, limit))

    def list_vanished(self, after: int, limit: int, judged: str, unsure: str) -> list[int]:
        """The next missing rows whose page has the verdict `judged`. `unsure`: hosts to leave out, as JSON."""
        parameters = {"after": after, "limit": limit, "judged": judged, "unsure": unsure}
        return [int(row) for (row,) in self._db.all(_VANISHED, parameters)]

    def count_vanished(self, judged: str, unsure: str) -> int:
        """How many rows `list_vanished` lists."""
        return int(self._db.value(_COUNT_VANISHED, {"after": 0, "judged": judged, "unsure": unsure}))


def _place(entry: RowEntry) -> int:
    """Where a row is kept: all of a key in one part."""
    return (entry.key[0] % _PARTS) << _PART_BITS | entry.side << _SIDE_BITS | entry.row
