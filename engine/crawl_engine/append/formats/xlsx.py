"""The output type `xlsx`: one workbook per dataDef, whose cells have the kinds of their values."""

import io
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crawl_engine.append.formats.column_types import ColumnType
from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import NumberLiteral, decode_values, encodable, encode_value, is_nested
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.errors import StorageError
from crawl_engine.model.record import to_text
from crawl_engine.runtime.extras import require_extra

MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 1_048_576, 16_384, 32_767
"""What a sheet of Excel holds: rows, the one with the names included; columns; UTF-16 units of a text."""
_MAX_DIGITS = 15
"""Excel keeps so many digits of a number."""
_FIRST_YEAR = 1900
_DATE_FORMATS = {"date": "yyyy-mm-dd", "datetime": "yyyy-mm-dd hh:mm:ss", "instant": "yyyy-mm-dd hh:mm:ss"}
_OPTIONS = {
    "constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False,
}  # fmt: skip
_CREATED = datetime(2000, 1, 1)
"""Equal rows give equal bytes."""
_log = logging.getLogger("appender")


class XlsxEncoder(RowEncoder):
    """Rows of one dataDef as the bytes of a workbook, all of which `footer` gives. Equal rows give equal bytes."""

    has_footer = True

    def __init__(
        self, columns: Sequence[str], types: Mapping[str, ColumnType], joins: Mapping[str, str] | None = None
    ) -> None:
        """`types`: of columns with dates. `joins`: the separators of lists; the default is `|`.

        Raises UsageError if the library is not installed.
        """
        require_extra("xlsx", "the output type xlsx")
        self._columns = tuple(columns)
        self._types = [types.get(name) if isinstance(types.get(name), str) else None for name in columns]
        self._joins = [(joins or {}).get(name, "|") for name in columns]
        self._cut = Counter[str]()
        """By column how many texts of the file are longer than a cell."""
        self._file = io.BytesIO()
        self._book: Any = None
        self._sheet: Any = None
        self._formats: dict[str, Any] = {}
        self._next_row = 0

    def header(self) -> bytes:
        """Begin a new file. Raises StorageError for more columns than a sheet holds."""
        from xlsxwriter import Workbook  # only runs with such an output have it

        if len(self._columns) > MAX_COLUMNS:
            text = f"{len(self._columns):,} columns, and a sheet of Excel holds {MAX_COLUMNS:,}; write csv or parquet"
            raise StorageError(text, "Or choose fewer columns with `columns` of the appender.")
        self._file = io.BytesIO()
        self._book = Workbook(self._file, _OPTIONS)
        self._book.set_properties({"created": _CREATED})
        self._formats = {name: self._book.add_format({"num_format": text}) for name, text in _DATE_FORMATS.items()}
        self._sheet = self._book.add_worksheet()
        self._cut.clear()
        for column, name in enumerate(self._columns):
            self._sheet.write_string(0, column, encodable(name))
        self._next_row = 1
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """Nothing: the library keeps rows in a temporary file. Raises StorageError for more rows than a sheet holds."""
        for row in rows:
            if self._next_row >= MAX_ROWS:
                text = f"more than {MAX_ROWS - 1:,} rows, which is what a sheet of Excel holds; write csv or parquet"
                raise StorageError(text, "Or divide the rows over several dataDefs or runs.")
            fields = decode_values(row)
            for column, name in enumerate(self._columns):
                value = fields.get(name)
                if value is not None:
                    self._write(column, value)
            self._next_row += 1
        return b""

    def footer(self) -> bytes:
        """The whole workbook."""
        self._book.close()
        if self._cut:
            columns = ", ".join(f"{name} ({count:,})" for name, count in self._cut.items())
            _log.warning(
                "texts are cut at %s characters in xlsx; exports as jsonl have all: %s", f"{MAX_TEXT:,}", columns
            )
        data, self._file = self._file.getvalue(), io.BytesIO()
        return data

    def _write(self, column: int, value: Any) -> None:
        sheet, row = self._sheet, self._next_row
        if isinstance(value, bool):
            sheet.write_boolean(row, column, value)
        elif isinstance(value, NumberLiteral):
            number = _to_number(value)
            if number is None:
                sheet.write_string(row, column, str(value))
            else:
                sheet.write_number(row, column, number)
        elif (format_ := self._formats.get(self._types[column] or "")) and (moment := _to_moment(value)):
            sheet.write_datetime(row, column, moment, format_)
        elif text := self._fit(column, value):
            sheet.write_string(row, column, text)

    def _fit(self, column: int, value: Any) -> str:
        """The text of a cell."""
        text = encodable(encode_value(value) if is_nested(value) else to_text(value, self._joins[column]))
        if len(text) <= MAX_TEXT // 2:
            return text
        units = text.encode("utf-16-le")
        if len(units) <= 2 * MAX_TEXT:
            return text
        self._cut[self._columns[column]] += 1
        return units[: 2 * MAX_TEXT].decode("utf-16-le", "ignore")


def _to_number(literal: NumberLiteral) -> float | None:
    """The number as Excel keeps it; None if it would lose digits."""
    digits = literal.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    number = float(literal)
    return number if len(digits) <= _MAX_DIGITS and abs(number) != float("inf") else None


def _to_moment(value: Any) -> datetime | None:
    """A date, in UTC if it has a time zone; None if a sheet cannot hold it."""
    try:
        moment = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment if moment.year >= _FIRST_YEAR else None


FORMAT = FileFormat(
    lambda settings: XlsxEncoder(settings["columns"], settings.get("column_types", {}), settings.get("joins"))
)
