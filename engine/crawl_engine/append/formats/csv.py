"""The output type `csv`: RFC 4180 with a header line; lines end in CRLF."""

import codecs
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import (
    NumberLiteral,
    decode_as_text,
    decode_values,
    is_nested,
    split_fields,
    to_one_line,
)
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.model.record import to_text

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters that make a spreadsheet evaluate a cell, or skip to one that does; the list is OWASP's."""


_QUOTING: Mapping[str, Literal[0, 1, 2]] = {
    "minimal": csv.QUOTE_MINIMAL, "all": csv.QUOTE_ALL, "nonnumeric": csv.QUOTE_NONNUMERIC,
}  # fmt: skip


class _CsvNumber(str):
    """A number with its digits. `csv` takes what has `__float__` for one, and does not quote it."""

    __slots__ = ()

    def __float__(self) -> float:
        return float(self.replace(",", "."))


class CsvEncoder(RowEncoder):
    """Rows of one dataDef as CSV bytes in UTF-8.

    `joins` has the separators of list columns; the default is `|`. Missing values are empty, booleans are `true` and
    `false`, numbers keep their digits, objects are JSON text. `escape_formulas`: text that a spreadsheet would evaluate
    gets a leading `'`; numbers stay as they are. `quoting`: `minimal`, `all` or `nonnumeric`. `decimal`: the mark of
    numbers.
    """

    def __init__(
        self,
        columns: Sequence[str],
        joins: Mapping[str, str] | None = None,
        delimiter: str = ",",
        *,
        escape_formulas: bool = False,
        bom: bool = False,
        quoting: str = "minimal",
        decimal: str = ".",
    ) -> None:
        self._columns = tuple(columns)
        self._joins = dict(joins or {})
        self._delimiter = delimiter
        self._escape_formulas = escape_formulas
        self._bom = codecs.BOM_UTF8 if bom else b""
        self._quoting = _QUOTING[quoting]
        self._decimal = decimal
        self._needs_types = escape_formulas or self._quoting == csv.QUOTE_NONNUMERIC or decimal != "."

    def header(self) -> bytes:
        """The line of column names, behind the byte order mark."""
        return self._bom + self._encode_lines([self._columns])

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        if self._needs_types:
            return self._encode_lines(map(self._typed_cells, rows))
        columns, cell = self._columns, self._cell
        return self._encode_lines(
            [
                value if type(value) is str else cell(value, column, row)
                for column, value in zip(columns, map(fields.get, columns), strict=True)
            ]
            for row in rows
            for fields in (decode_as_text(row),)
        )

    def _typed_cells(self, row: str) -> list[str]:
        """The cells of a row: numbers as such, text without formulas if these are escaped."""
        fields = decode_values(row)
        cells = []
        for column in self._columns:
            value = fields.get(column)
            if self._decimal != ".":
                value = self._with_mark(value)
            cell = value if isinstance(value, str) else self._cell(value, column, row)
            if isinstance(value, NumberLiteral):
                cell = _CsvNumber(value)
            elif self._escape_formulas and cell.startswith(_FORMULA_STARTS) and not _is_numeric(value):
                cell = f"'{cell}"
            cells.append(cell)
        return cells

    def _with_mark(self, value: Any) -> Any:
        """A number with the decimal mark of the file, and a list of such numbers."""
        if isinstance(value, list):
            return [self._with_mark(item) for item in value]
        return NumberLiteral(value.replace(".", self._decimal)) if isinstance(value, NumberLiteral) else value

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
        writer = csv.writer(text, delimiter=self._delimiter, lineterminator="\r\n", quoting=self._quoting)
        writer.writerows(records)
        return text.getvalue().encode("utf-8", "replace")


def _is_numeric(value: Any) -> bool:
    """Whether a decoded value is a number, or a list of numbers: its text cannot be a formula of a page."""
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, NumberLiteral) for item in items)


FORMAT = FileFormat(
    lambda settings: CsvEncoder(
        settings["columns"],
        settings.get("joins"),
        settings.get("delimiter") or ",",
        escape_formulas=settings.get("escape_formulas", False),
        bom=settings.get("bom", False),
        quoting=settings.get("quoting", "minimal"),
        decimal=settings.get("decimal", "."),
    ),
    is_quoted=True,
)
