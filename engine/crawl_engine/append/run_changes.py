"""Compares the rows of a dataDef in two runs: what was added, what changed, and what is missing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.append.export import read_batches
from crawl_engine.append.formats.row_json import select_fields
from crawl_engine.model.content_digest import key_digest
from crawl_engine.model.definition import DataDef
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.run_comparison import find_data_def, find_earlier_run, has_all_rows, read_texts
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


class RunComparison(Struct, frozen=True, kw_only=True):
    """The rows of a dataDef in a run beside those of an earlier one."""

    run: int
    earlier: int | None
    """None: there is none."""
    before: DataDef
    """The dataDef as the earlier run had it."""
    data_def: DataDef

    @classmethod
    def find(cls, db: Database, run: int, data_def: DataDef) -> "RunComparison":
        """With the last earlier run that gave rows, a DONE one if there is any."""
        return cls.between(db, run, find_earlier_run(db, run, data_def.name), data_def)

    @classmethod
    def between(cls, db: Database, run: int, earlier: int | None, data_def: DataDef) -> "RunComparison":
        """With a chosen run."""
        before = None if earlier is None else find_data_def(db, earlier, data_def.name)
        return cls(run=run, earlier=earlier, before=before or data_def, data_def=data_def)

    @property
    def compared(self) -> ComparedDef:
        """The dataDef as both runs have it."""
        return ComparedDef.of(self.before, self.data_def)

    @property
    def missing_key(self) -> str | None:
        """A field of the key that the earlier run lacks: then no row of it can be paired."""
        return next((name for name in self.data_def.key if name not in self.before.columns), None)

    def without_earlier(self) -> "RunComparison":
        """As if there were no earlier run: all rows are added."""
        return replace(self, earlier=None, before=self.data_def)

    def is_decided(self, db: Database) -> bool:
        """Whether a row that only the earlier run has is gone from its site."""
        return self.earlier is not None and has_all_rows(db, self.run, self.earlier, self.data_def.name)

    def read(
        self, db: Database, entries: RowEntries, check: Callable[[], None] = lambda: None
    ) -> Iterator[Sequence[ChangedRow]]:
        """Compare, and read the changes in batches. `check` is called now and then, and may raise."""
        compare_rows(db, entries, self.compared, old=self.earlier, new=self.run, check=check)
        yield from read_changes(db, entries, with_missing=self.is_decided(db))


def compare_rows(
    db: Database, entries: RowEntries, compared: ComparedDef, *, old: int | None, new: int,
    check: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Fill `entries` with the rows of the runs of these numbers. `old`: None where no earlier run exists.

    Raises DatabaseBusy, StorageError.
    """
    for side, run in ((OLD, old), (NEW, new)):
        for batch in read_batches(db, run, compared.name) if run is not None else ():
            check()
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
