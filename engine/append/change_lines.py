"""Encodes the rows that differ between two runs, one line each, as JSON or CSV."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from engine.append.formats.csv import CsvEncoder
from engine.append.formats.row_json import split_fields, to_one_line
from engine.append.run_changes import ChangeKind, ComparedDef, RunChange

CHANGE = "change"


class ChangeEncoder(Protocol):
    """Encodes changes as the bytes of a file."""

    def header(self) -> bytes:
        """The first bytes of the file."""

    def lines(self, changes: Iterable[RunChange]) -> bytes:
        """The lines of changes; a row whose fields are equal has none."""


class JsonChangeEncoder:
    """`{"change": …, "key": {FIELD: …}, "fields": {FIELD: {"old": …, "new": …}}}`; values as the rows have them."""

    def __init__(self, compared: ComparedDef) -> None:
        self._compared = compared
        names = dict.fromkeys([*compared.new_columns, *compared.old_columns, *compared.key])
        self._names = {name: json.dumps(name, ensure_ascii=False) for name in names}

    def header(self) -> bytes:
        """Empty: each line names its fields."""
        return b""

    def lines(self, changes: Iterable[RunChange]) -> bytes:
        """The lines of changes."""
        return "".join([self._line(line) for line in _to_lines(self._compared, changes)]).encode("utf-8", "replace")

    def _line(self, line: "_Line") -> str:
        names = self._names
        keys = ",".join([f"{names[name]}:{value}" for name, value in line.key.items()])
        fields = ",".join(
            [f'{names[name]}:{{"old":{old},"new":{new}}}' for name, (old, new) in line.values.items()]
        )  # fmt: skip
        return to_one_line(f'{{"{CHANGE}":"{line.kind}","key":{{{keys}}},"fields":{{{fields}}}}}') + "\n"


class CsvChangeEncoder:
    """Columns `change`, the fields of the key, then `FIELD.old` and `FIELD.new`; both empty: the field is equal."""

    def __init__(self, compared: ComparedDef, joins: Mapping[str, str], *, escape_formulas: bool) -> None:
        self._compared = compared
        self._keys = {name: f"key.{name}" if name == CHANGE else name for name in compared.key}
        taken = {CHANGE, *self._keys.values()}
        self._columns: dict[str, tuple[str, str]] = {}
        for name in dict.fromkeys([*compared.new_columns, *compared.old_columns]):
            if name not in compared.key:
                self._columns[name] = (_free(f"{name}.old", taken), _free(f"{name}.new", taken))
        columns = [CHANGE, *self._keys.values(), *(column for both in self._columns.values() for column in both)]
        column_joins = {self._keys[name]: joins[name] for name in self._keys if name in joins} | {
            column: joins[name] for name, both in self._columns.items() if name in joins for column in both
        }
        self._names = {column: json.dumps(column, ensure_ascii=False) for column in columns}
        self._encoder = CsvEncoder(columns, column_joins, escape_formulas=escape_formulas)

    def header(self) -> bytes:
        """The line of column names."""
        return self._encoder.header()

    def lines(self, changes: Iterable[RunChange]) -> bytes:
        """The lines of changes."""
        return self._encoder.rows(self._row(line) for line in _to_lines(self._compared, changes))

    def _row(self, line: "_Line") -> str:
        cells = {CHANGE: f'"{line.kind}"'} | {self._keys[name]: value for name, value in line.key.items()}
        for name, both in line.values.items():
            cells |= zip(self._columns[name], both, strict=True)
        return "{" + ",".join([f"{self._names[name]}:{value}" for name, value in cells.items()]) + "}"


def create_change_encoder(
    format_: str, compared: ComparedDef, joins: Mapping[str, str], *, escape_formulas: bool
) -> ChangeEncoder:
    """The encoder of a format, `csv` or `jsonl`."""
    if format_ == "jsonl":
        return JsonChangeEncoder(compared)
    return CsvChangeEncoder(compared, joins, escape_formulas=escape_formulas)


class _Line(NamedTuple):
    """What a line says: JSON by field. `values`: before and after, `null` where there is none."""

    kind: ChangeKind
    key: dict[str, str]
    values: dict[str, tuple[str, str]]


def _to_lines(compared: ComparedDef, changes: Iterable[RunChange]) -> Iterator[_Line]:
    """The lines of changes, without rows whose compared fields are all equal."""
    for change in changes:
        before = split_fields(change.old) if change.old is not None else {}
        after = split_fields(change.new) if change.new is not None else {}
        columns = {"added": compared.new_columns, "vanished": compared.old_columns}.get(
            change.kind, compared.common_columns
        )  # fmt: skip
        values = {
            name: (before.get(name, "null"), after.get(name, "null")) for name in columns if name not in compared.key
        }  # fmt: skip
        if change.kind == "changed":
            values = {name: both for name, both in values.items() if both[0] != both[1]}
            if not values:
                continue
        fields = after or before
        yield _Line(change.kind, {name: fields.get(name, "null") for name in compared.key}, values)


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that no other column has."""
    while name in taken:
        name = f"field.{name}"
    taken.add(name)
    return name
