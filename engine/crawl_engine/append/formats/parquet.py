"""The output type `parquet`: one file per dataDef; its columns have the types of the fields."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from crawl_engine.append.formats.column_types import ColumnType
from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import NumberLiteral, decode_values, encodable
from crawl_engine.append.formats.typed_table import encode_list, encode_text, require_text
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.runtime.extras import require_extra

DECIMAL_PRECISION, DECIMAL_SCALE = 38, 18
GROUP_ROWS, GROUP_CHARACTERS = 100_000, 32_000_000
"""A group of rows ends with the row that reaches one of these: memory stays flat."""
CHUNK_ROWS = 1_000
"""Rows that are converted at once."""
_log = logging.getLogger("appender")
_INT64 = range(-(2**63), 2**63)


class _Cells(Struct, frozen=True):
    """The type of a column, and how a value that is not None becomes a cell. Raises ValueError if it does not fit."""

    type: Any
    encode: Callable[[Any], Any]


class ParquetEncoder(RowEncoder):
    """Rows of one dataDef as the bytes of a Parquet file. Equal rows give equal bytes, however they are divided."""

    has_footer = True

    def __init__(self, columns: Sequence[str], types: Mapping[str, ColumnType]) -> None:
        """`types`: of columns; others are texts. Raises UsageError if the library is not installed."""
        require_extra("parquet", "the output type parquet")
        import pyarrow  # only runs with such an output have it

        self._arrow = pyarrow
        self._cells = {name: _cells_of(types.get(name, "str"), pyarrow) for name in columns}
        self._schema = pyarrow.schema([(name, cells.type) for name, cells in self._cells.items()])
        self._unfit = Counter[str]()
        """By column how many values of the file do not fit it."""
        self._sink = _Sink()
        self._writer: Any = None
        self._rows: list[dict[str, Any]] = []
        self._chunks: list[Any] = []
        self._group_rows = self._group_characters = 0

    def header(self) -> bytes:
        """Begin a new file."""
        from pyarrow.parquet import ParquetWriter

        self._sink = _Sink()
        self._writer = ParquetWriter(self._sink, self._schema, compression="zstd")
        self._rows, self._chunks = [], []
        self._unfit.clear()
        self._group_rows = self._group_characters = 0
        return self._sink.drain()

    def rows(self, rows: Iterable[str]) -> bytes:
        """The groups of rows that are complete now."""
        for row in rows:
            self._rows.append(decode_values(row))
            self._group_rows += 1
            self._group_characters += len(row)
            if self._group_rows >= GROUP_ROWS or self._group_characters >= GROUP_CHARACTERS:
                self._end_group()
            elif self._group_rows % CHUNK_ROWS == 0:
                self._end_chunk()
        return self._sink.drain()

    def footer(self) -> bytes:
        """The last group of rows, and the footer."""
        if self._group_rows:
            self._end_group()
        self._writer.close()
        if self._unfit:
            columns = ", ".join(f"{name} ({count:,})" for name, count in self._unfit.items())
            _log.warning(
                "values that do not fit their columns are null in parquet; exports as jsonl have them: %s", columns
            )
        return self._sink.drain()

    def _end_group(self) -> None:
        self._end_chunk()
        self._writer.write_table(self._arrow.Table.from_batches(self._chunks), row_group_size=self._group_rows)
        self._chunks = []
        self._group_rows = self._group_characters = 0

    def _end_chunk(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        arrays = [self._encode_column(name, cells, rows) for name, cells in self._cells.items()]
        self._chunks.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _encode_column(self, name: str, cells: _Cells, rows: Sequence[dict[str, Any]]) -> Any:
        """The values of a column; one that does not fit is missing."""
        encode, encoded = cells.encode, []
        for row in rows:
            value = row.get(name)
            try:
                encoded.append(None if value is None else encode(value))
            except (ValueError, OverflowError):
                encoded.append(None)
                self._unfit[name] += 1
        return self._arrow.array(encoded, cells.type)


class _Sink:
    """The file that the library writes; `drain` takes what is new."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing, as `close`."""

    close = flush

    def drain(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


def _cells_of(type_: ColumnType, arrow: Any) -> _Cells:
    if isinstance(type_, Mapping):
        items = _cells_of(type_["list"], arrow)
        return _Cells(arrow.list_(items.type), encode_list(items.encode))
    if isinstance(type_, list):
        fields = {name: _cells_of(inner, arrow) for name, inner in type_}
        struct = arrow.struct([(name, inner.type) for name, inner in fields.items()])
        return _Cells(struct, _object_encoder({name: inner.encode for name, inner in fields.items()}))
    scalars = {
        "int": _Cells(arrow.int64(), _integer),
        "float": _Cells(arrow.float64(), _float),
        "decimal": _Cells(arrow.decimal128(DECIMAL_PRECISION, DECIMAL_SCALE), _decimal),
        "bool": _Cells(arrow.bool_(), _bool),
        "date": _Cells(arrow.date32(), _date),
        "datetime": _Cells(arrow.timestamp("us"), _datetime),
        "instant": _Cells(arrow.timestamp("us", "UTC"), _instant),
    }
    return scalars.get(type_) or _Cells(arrow.string(), _text)


def _object_encoder(fields: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or value.keys() - fields.keys():
            raise ValueError
        return {name: None if item is None else fields[name](item) for name, item in value.items()}

    return encode


def _text(value: Any) -> str:
    return encodable(encode_text(value))


def _number(value: Any) -> NumberLiteral:
    if not isinstance(value, NumberLiteral):
        raise ValueError
    return value


def _integer(value: Any) -> int:
    number = int(_number(value))
    if number not in _INT64:
        raise ValueError
    return number


def _float(value: Any) -> float:
    number = float(_number(value))
    if not math.isfinite(number):
        raise ValueError
    return number


def _decimal(value: Any) -> Decimal:
    number = Decimal(_number(value))
    sign, digits, exponent = number.as_tuple()
    if isinstance(exponent, int) and exponent < -DECIMAL_SCALE:
        kept = len(digits) - (-DECIMAL_SCALE - exponent)
        if any(digits[max(0, kept) :]):
            raise ValueError
        number = Decimal((sign, digits[: max(0, kept)] or (0,), -DECIMAL_SCALE))
    if number and number.adjusted() >= DECIMAL_PRECISION - DECIMAL_SCALE:
        raise ValueError
    return number


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _date(value: Any) -> date:
    return date.fromisoformat(require_text(value))


def _datetime(value: Any) -> datetime:
    """A time with a zone in UTC; one without as it is written; a date at midnight."""
    moment = datetime.fromisoformat(require_text(value))
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _instant(value: Any) -> datetime:
    moment = datetime.fromisoformat(require_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)


FORMAT = FileFormat(lambda settings: ParquetEncoder(settings["columns"], settings.get("column_types", {})))
