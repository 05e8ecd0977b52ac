"""The output type `csv`: RFC 4180 with a header line; lines end in CRLF."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.append.files import FileFormat
from engine.append.row_json import decode_as_text, is_nested, split_fields, to_one_line
from engine.model.text_value import to_text


class CsvEncoder:
    """Rows of one dataDef as CSV bytes in UTF-8.

    `joins` has the separators of list columns; the default is `|`. Missing values are empty, booleans are `true` and
    `false`, numbers keep their digits, objects are JSON text.
    """

    def __init__(self, columns: Sequence[str], joins: Mapping[str, str] | None = None, delimiter: str = ",") -> None:
        self._columns = tuple(columns)
        self._joins = dict(joins or {})
        self._delimiter = delimiter

    def header(self) -> bytes:
        """The line of column names."""
        return self._encode_lines([self._columns])

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        columns, cell = self._columns, self._cell
        return self._encode_lines(
            [
                value if type(value) is str else cell(value, column, row)
                for column, value in zip(columns, map(fields.get, columns), strict=True)
            ]
            for row in rows
            for fields in (decode_as_text(row),)
        )

    def _cell(self, value: Any, column: str, row: str) -> str:
        join = self._joins.get(column, "|")
        if type(value) is list:
            try:
                return join.join(value)  # numbers are decoded as text, so most lists are lists of strings
            except TypeError:
                pass
        return to_one_line(split_fields(row)[column]) if is_nested(value) else to_text(value, join)

    def _encode_lines(self, records: Iterable[Sequence[str]]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self._delimiter, lineterminator="\r\n").writerows(records)
        return text.getvalue().encode("utf-8", "replace")


FORMAT = FileFormat(
    lambda settings: CsvEncoder(settings["columns"], settings.get("joins"), settings.get("delimiter") or ",")
)
