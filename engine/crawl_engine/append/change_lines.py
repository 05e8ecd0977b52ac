"""Encodes the rows that differ between two runs, one line each, as JSON or CSV."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from crawl_engine.append.formats.csv import CsvEncoder
from crawl_engine.append.formats.jsonl import JsonlEncoder
from crawl_engine.append.formats.row_json import join_fields, split_fields
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.append.run_changes import ChangedRow, ComparedDef

CHANGE = "change"
_Kind = Literal["added", "changed", "vanished"]


_FlatColumns = Mapping[str, tuple[str, int | None]]
"""By column behind the first: its field, and the place of its value; None: it is of the key."""


class ChangeEncoder(RowEncoder):
    """Encodes changes as the bytes of a file: `rows_of` gives what `rows` encodes.

    JSON lines: `{"change": …, "key": {FIELD: …}, "fields": {FIELD: {"old": …, "new": …}}}`; values as the rows have
    them. CSV: `change`, the fields of the key, then `FIELD.old` and `FIELD.new`; both empty: the field is equal.
    """

    def __init__(self, format_: str, compared: ComparedDef, options: Mapping[str, Any]) -> None:
        """`options`: keyword arguments of the encoder of CSV."""
        self._compared = compared
        self._columns = _flat_columns(compared)
        joins = {column: compared.joins[name] for column, (name, _) in self._columns.items() if name in compared.joins}
        self._is_flat = format_ == "csv"
        self._encoder: RowEncoder = JsonlEncoder((CHANGE, "key", "fields"))
        if self._is_flat:
            self._encoder = CsvEncoder([CHANGE, *self._columns], joins, **options)

    def header(self) -> bytes:
        """The first bytes of the file."""
        return self._encoder.header()

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of rows that `rows_of` gave."""
        return self._encoder.rows(rows)

    def rows_of(self, changes: Iterable[ChangedRow]) -> list[str]:
        """Changes as the JSON of rows; a row whose fields are equal has none."""
        lines = _to_lines(self._compared, changes)
        return [_flat_row(self._columns, line) if self._is_flat else _nested_row(line) for line in lines]

    def lines(self, changes: Iterable[ChangedRow]) -> bytes:
        """The lines of changes."""
        return self.rows(self.rows_of(changes))


class _Line(NamedTuple):
    """What a line says: JSON by field. `values`: before and after, `null` where the field is missing."""

    kind: _Kind
    key: dict[str, str]
    values: dict[str, tuple[str, str]]


def _to_lines(compared: ComparedDef, changes: Iterable[ChangedRow]) -> Iterator[_Line]:
    kind: _Kind
    common = compared.common_columns
    for old, new in changes:
        before, after = ({} if row is None else split_fields(row) for row in (old, new))
        if old is None:
            kind, columns = "added", compared.new_columns
        elif new is None:
            kind, columns = "vanished", compared.old_columns
        else:
            kind, columns = "changed", common
        both = {name: (before.get(name, "null"), after.get(name, "null")) for name in columns}
        values = {
            name: (old_value, new_value) for name, (old_value, new_value) in both.items()
            if name not in compared.key and (kind != "changed" or old_value != new_value)
        }  # fmt: skip
        if values or kind != "changed":
            yield _Line(kind, {name: (after or before).get(name, "null") for name in compared.key}, values)


def _nested_row(line: _Line) -> str:
    fields = {name: join_fields({"old": old, "new": new}) for name, (old, new) in line.values.items()}
    return join_fields({CHANGE: f'"{line.kind}"', "key": join_fields(line.key), "fields": join_fields(fields)})


def _flat_columns(compared: ComparedDef) -> _FlatColumns:
    columns: dict[str, tuple[str, int | None]] = {
        f"key.{name}" if name == CHANGE else name: (name, None) for name in compared.key
    }
    for name in compared.all_columns:
        for place, suffix in enumerate(("old", "new") if name not in compared.key else ()):
            column = f"{name}.{suffix}"
            while column in columns:
                column = f"field.{column}"
            columns[column] = (name, place)
    return columns


def _flat_row(columns: _FlatColumns, line: _Line) -> str:
    cells = {CHANGE: f'"{line.kind}"'}
    for column, (name, place) in columns.items():
        if place is None:
            cells[column] = line.key[name]
        elif name in line.values:
            cells[column] = line.values[name][place]
    return join_fields(cells)
