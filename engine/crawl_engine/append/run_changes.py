"""Compares the rows of a dataDef in two runs: what was added, what changed, and what is missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from types import MappingProxyType

from msgspec import Struct

from crawl_engine.append.export import read_batches
from crawl_engine.append.formats.row_json import select_fields
from crawl_engine.model.content_digest import key_digest
from crawl_engine.model.definition import DataDef
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.run_comparison import read_texts
from crawl_engine.store.tables.row.row_entries import NEW, OLD, RowEntries, RowEntry, RowPair

ChangedRow = tuple[str | None, str | None]
"""The JSON of a row in the earlier run and in the later one; None: the run lacks it."""


class ComparedDef(Struct, frozen=True, kw_only=True):
    """A dataDef as two runs have it."""

    name: str
    key: tuple[str, ...]
    old_columns: tuple[str, ...]
    new_columns: tuple[str, ...]
    joins: Mapping[str, str] = MappingProxyType({})
    """What stands between the values of lists in CSV, by field."""

    @classmethod
    def of(cls, before: DataDef, after: DataDef) -> "ComparedDef":
        """A dataDef as the earlier run has it, and as the later one has it."""
        joins = {field.name: field.join for field in (*before.fields, *after.fields) if field.is_list}
        return cls(name=after.name, key=after.key, old_columns=before.columns, new_columns=after.columns, joins=joins)

    @property
    def common_columns(self) -> tuple[str, ...]:
        """The fields that both runs have: only these are compared."""
        return tuple(name for name in self.new_columns if name in self.old_columns)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The fields of either run."""
        return tuple(dict.fromkeys([*self.new_columns, *self.old_columns]))


def compare_rows(db: Database, entries: RowEntries, compared: ComparedDef, *, old: int | None, new: int) -> None:
    """Fill `entries` with the rows of the runs of these numbers. `old`: None where no earlier run exists.

    Raises DatabaseBusy, StorageError.
    """
    for side, run in ((OLD, old), (NEW, new)):
        for batch in read_batches(db, run, compared.name) if run is not None else ():
            entries.add(_to_entry(compared, side, *row) for row in batch)
    by_key = groupby(entries.read_sorted(), attrgetter("key"))
    entries.add_changes(chain.from_iterable(_pair_rows(rows) for _, rows in by_key))


def read_changes(db: Database, entries: RowEntries, *, with_missing: bool) -> Iterator[Sequence[ChangedRow]]:
    """In batches: the rows that are new or changed, in the order of the later run; then those that it lacks."""
    for batch in entries.read_changes(with_missing=with_missing):
        texts = read_texts(db, [row for pair in batch for row in pair if row is not None])
        yield [(texts.get(old or 0), texts.get(new or 0)) for old, new in batch]


def _to_entry(compared: ComparedDef, side: int, row: int, text: str) -> RowEntry:
    if compared.old_columns != compared.new_columns:
        text = select_fields(text, compared.common_columns)
    content = key_digest(text, ())
    return RowEntry(row, side, key_digest(text, compared.key) if compared.key else content, content)


def _pair_rows(of_key: Iterable[RowEntry]) -> Iterator[RowPair]:
    """The rows of a key that differ: equal ones are left out, the others are paired in their order.

    Where both runs have the key and one of them has more rows, the rest is neither new nor missing.
    """
    sides, different = set[int](), (list[int](), list[int]())
    for _, of_content in groupby(of_key, attrgetter("content")):
        equal = (list[int](), list[int]())
        for entry in of_content:
            equal[entry.side].append(entry.row)
            sides.add(entry.side)
        if len(equal[OLD]) != len(equal[NEW]):
            paired = min(map(len, equal))
            for rows, all_equal in zip(different, equal, strict=True):
                rows += all_equal[paired:]
    old, new = map(sorted, different)
    return zip(old, new, strict=False) if len(sides) > 1 else zip_longest(old, new)
