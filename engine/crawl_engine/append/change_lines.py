"""Encodes the rows that differ between two runs, one line each, as JSON or CSV."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from crawl_engine.append.formats.csv import CsvEncoder
from crawl_engine.append.formats.row_json import join_fields, split_fields, to_one_line
from crawl_engine.append.run_changes import ChangedRow, ComparedDef

CHANGE = "change"
_Kind = Literal["added", "changed", "vanished"]


_FlatColumns = Mapping[str, tuple[str, int | None]]
"""By column behind the first: its field, and the place of its value; None: it is of the key."""


class ChangeEncoder:
    """Encodes changes as the bytes of a file.

    JSON lines: `{"change": …, "key": {FIELD: …}, "fields": {FIELD: {"old": …, "new": …}}}`; values as the rows have
    them. CSV: `change`, the fields of the key, then `FIELD.old` and `FIELD.new`; both empty: the field is equal.
    """

    def __init__(
        self, format_: str, compared: ComparedDef, joins: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        """`options`: keyword arguments of the encoder of CSV."""
        self._compared = compared
        self._columns = _flat_columns(compared)
        column_joins = {column: joins[name] for column, (name, _) in self._columns.items() if name in joins}
        self._csv = CsvEncoder([CHANGE, *self._columns], column_joins, **options) if format_ == "csv" else None

    def header(self) -> bytes:
        """The first bytes of the file."""
        return self._csv.header() if self._csv else b""

    def lines(self, changes: Iterable[ChangedRow]) -> bytes:
        """The lines of changes; a row whose fields are equal has none."""
        lines = _to_lines(self._compared, changes)
        if self._csv:
            return self._csv.rows(_flat_row(self._columns, line) for line in lines)
        return "".join([to_one_line(_nested_row(line)) + "\n" for line in lines]).encode("utf-8", "replace")


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
