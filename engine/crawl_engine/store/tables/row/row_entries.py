"""Writes a temporary database: digests of the rows of two runs, and the rows that differ."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from crawl_engine.errors import StorageError
from crawl_engine.store.db.sqlite import SqliteDatabase

_TABLES = (
    "CREATE TABLE entries (part, row, side, key, content, PRIMARY KEY (part, row)) WITHOUT ROWID",
    "CREATE TABLE changes (is_missing, row, old, new, PRIMARY KEY (is_missing, row)) WITHOUT ROWID",
)
_ADD = "INSERT INTO entries (part, row, side, key, content) {values}"
_SORTED = "SELECT row, side, key, content FROM entries WHERE part = ? ORDER BY key, content, row"
_ADD_CHANGES = "INSERT INTO changes (is_missing, row, old, new) {values}"
_CHANGES = "SELECT old, new FROM changes WHERE is_missing <= ? ORDER BY is_missing, row"
_COUNT_MISSING = "SELECT count(*) FROM changes WHERE is_missing"
_PARTS = 64
"""Rows are sorted in parts, by the first byte of their keys: some builds of SQLite sort in memory alone."""
_BATCH = 500
OLD, NEW = 0, 1
"""The sides: the earlier run, and the later one."""
RowPair = tuple[int | None, int | None]
"""A row of the earlier run, and that of the later run with its key; None: the run lacks it."""


class RowEntry(NamedTuple):
    """A row of a run, with the digests of its key and of its content."""

    row: int
    side: int
    key: bytes
    content: bytes


@contextlib.contextmanager
def open_entries() -> Iterator["RowEntries"]:
    """A temporary place for the rows of two runs. Its file has no name: nothing is left of it, whatever ends us.

    Raises StorageError.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="crawl-console-") as folder:
            entries = RowEntries(Path(folder) / "rows.db")
    except OSError as error:
        raise StorageError(f"no temporary folder: {error.strerror}", "Set TMPDIR to a folder with space.") from error
    with contextlib.closing(entries):
        yield entries


class RowEntries:
    """The rows of two runs, and what differs between them. `path`: of a new file, which the caller deletes."""

    def __init__(self, path: Path) -> None:
        self._db = SqliteDatabase.open(path, creates=True, durable=False)
        # it lives as long as one command: nothing has to survive a crash
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", *_TABLES):
            self._db.execute(statement)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, entries: Iterable[RowEntry]) -> None:
        """Add rows of either run."""
        with self._db.transaction():
            self._db.execute_values(
                _ADD, sorted([(key[0] % _PARTS, row, side, key, content) for row, side, key, content in entries])
            )

    def read_sorted(self) -> Iterator[RowEntry]:
        """All rows, by key and content; those of the earlier run first."""
        for part in range(_PARTS):
            yield from map(RowEntry._make, self._db.execute(_SORTED, (part,)))

    def add_changes(self, pairs: Iterator[RowPair]) -> None:
        """Record rows that differ."""
        with self._db.transaction():
            while batch := list(islice(pairs, _BATCH)):
                changes = [(new is None, new or old, old, new) for old, new in batch]
                self._db.execute_values(_ADD_CHANGES, changes)

    def read_changes(self, *, with_missing: bool) -> Iterator[Sequence[RowPair]]:
        """The rows that differ, in batches: new and changed ones by their id; then those that the later run lacks."""
        cursor = self._db.execute(_CHANGES, (with_missing,))
        while batch := cursor.fetchmany(_BATCH):
            yield batch

    def count_missing(self) -> int:
        """How many rows the later run lacks."""
        return int(self._db.value(_COUNT_MISSING))
