"""Compares the rows of a dataDef in two runs: what was added, what changed, and what vanished."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import orjson
from msgspec import Struct

from engine.append.formats.row_json import decode_as_text, split_fields
from engine.model.content_digest import row_digest
from engine.model.fingerprint import ChangeScope
from engine.store.db.connector import Database
from engine.store.read import run_comparison
from engine.store.read.run_comparison import JUDGED, NOT_REACHED, ComparedRow
from engine.store.tables.row.row_entries import NEW, OLD, RowEntries, RowEntry

_BATCH = 500

ChangeKind = Literal["added", "changed", "vanished"]


class ComparedDef(Struct, frozen=True, kw_only=True):
    """A dataDef as two runs have it."""

    name: str
    key: tuple[str, ...]
    old_columns: tuple[str, ...]
    new_columns: tuple[str, ...]

    @property
    def common_columns(self) -> tuple[str, ...]:
        """The fields that both runs have: only these are compared."""
        return tuple(name for name in self.new_columns if name in self.old_columns)


class RunChange(Struct, frozen=True):
    """A row that differs between two runs, as JSON before and after; None: the run does not have it."""

    kind: ChangeKind
    old: str | None
    new: str | None


class Undecided(Struct, frozen=True):
    """How many rows the later run lacks that are not called vanished."""

    own_page: int
    """Their page was not judged."""
    moved: int
    """Their page was, but they may have moved to one that was not."""


class RowComparison:
    """The rows of a dataDef in `new`, compared with those in `old`, an earlier run; both are numbers of runs."""

    def __init__(
        self, db: Database, entries: RowEntries, compared: ComparedDef, scope: ChangeScope, *, old: int | None, new: int
    ) -> None:
        """`entries`: empty. `old`: None where there is no earlier run; all rows are added then.

        Raises DatabaseBusy or StorageError, as all methods do.
        """
        self._db, self._entries, self._compared = db, entries, compared
        for side, run in ((OLD, old), (NEW, new)):
            if run is not None:
                self._load(side, run)
        entries.pair()
        missing = self._judge(new, scope)
        judged = missing.get(JUDGED, 0)
        unsure = self._find_unsure_sites(scope, old, new) if old is not None and judged else set()
        self._unsure = orjson.dumps(sorted(unsure)).decode()
        self.undecided = Undecided(
            sum(missing.values()) - judged, judged - entries.count_vanished(JUDGED, self._unsure)
        )

    def changes(self) -> Iterator[RunChange]:
        """The rows that are new or changed, in the order of the later run; then those that vanished."""
        after = 0
        while batch := self._entries.list_present(after, _BATCH):
            after = batch[-1][1]
            texts = run_comparison.read_texts(self._db, [row for pair in batch for row in pair if row is not None])
            for old, new in batch:
                yield RunChange(
                    "added" if old is None else "changed", None if old is None else texts[old], texts[new]
                )  # fmt: skip
        part: list[int] = []
        for row in self._list_vanished():
            part.append(row)
            if len(part) == _BATCH:
                yield from self._vanished(part)
                part = []
        yield from self._vanished(part)

    def _vanished(self, part: Sequence[int]) -> Iterator[RunChange]:
        texts = run_comparison.read_texts(self._db, part)
        return (RunChange("vanished", texts[row], None) for row in part)

    def _list_vanished(self) -> Iterator[int]:
        after = 0
        while batch := self._entries.list_vanished(after, _BATCH, JUDGED, self._unsure):
            after = batch[-1]
            yield from batch

    def _load(self, side: int, run: int) -> None:
        is_same = self._compared.old_columns == self._compared.new_columns
        with_text = bool(self._compared.key) or not is_same
        for batch in run_comparison.iter_rows(self._db, run, self._compared.name, with_text=with_text):
            self._entries.add([self._to_entry(side, row, is_same=is_same) for row in batch])

    def _to_entry(self, side: int, row: ComparedRow, *, is_same: bool) -> RowEntry:
        text = row.text or ""
        if not is_same:
            fields = split_fields(text)
            content = _hash([fields.get(name) for name in self._compared.common_columns])
        else:
            content = row.digest or row_digest(self._compared.name, text)
        key = content
        if self._compared.key:
            decoded = decode_as_text(text)
            values = [decoded.get(name) for name in self._compared.key]
            if any(value is not None for value in values):
                key = _hash(values)
        return RowEntry(side, row.id, row.job, key, content)

    def _judge(self, new: int, scope: ChangeScope) -> dict[str, int]:
        """What became of the pages of missing rows; returns how many rows have pages of each verdict."""
        after = 0
        while jobs := self._entries.missing_jobs(after, _BATCH):
            after = jobs[-1]
            pages = run_comparison.judge_pages(self._db, new, self._compared.name, jobs, scope.fixed)
            self._entries.add_pages(pages)
        return self._entries.count_missing()

    def _find_unsure_sites(self, scope: ChangeScope, old: int, new: int) -> set[str]:
        """The sites of which no row is called vanished."""
        if not run_comparison.is_seeded(self._db, new):
            return self._entries.hosts(JUDGED)
        # a page that was not reached may hold other rows by now, unless all that it held are on other pages
        return run_comparison.find_unsure_sites(self._db, new, old, scope) | self._entries.hosts(NOT_REACHED)


def _hash(values: Sequence[object]) -> bytes:
    # a repr is unambiguous, and far quicker than JSON
    return hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=16).digest()
