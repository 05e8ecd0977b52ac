"""Typed columns of databases: which SQL type holds the values of a field, and the cells of rows."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct

from crawl_engine.append.formats.column_types import ColumnType
from crawl_engine.append.formats.row_json import NumberLiteral, decode_values, encodable, encode_value
from crawl_engine.append.formats.table_names import quote_name, unique_names
from crawl_engine.append.formats.writer import Batch
from crawl_engine.late_regex import late_regex

ROW_COLUMN = "_row"
"""The column of the row id; it gets another name if a field has this one."""

Cell = str | list[str] | dict[str, Any] | None
"""A value as a database reads it: a text, the texts of a list, or those of an object."""
_UNCLEAN = late_regex(r"\\u(?:0000|[dD][89a-fA-F])")
"""The escapes in a row of NUL, and of surrogates."""
_INT64 = range(-(2**63), 2**63)


class SqlType(Struct, frozen=True):
    """A type of a database. `encode`: the cell of a value that is not None; ValueError: the type cannot hold it."""

    name: str
    encode: Callable[[Any], Cell]


class Ladder(Struct, frozen=True):
    """The types of one column, from the narrowest; the last one holds every value."""

    steps: tuple[SqlType, ...]

    def find(self, name: str) -> int | None:
        """The place of the type with this name; None: the column cannot have it."""
        return next((place for place, type_ in enumerate(self.steps) if type_.name == name), None)


class TypedTable:
    """The table of one dataDef: a column for the row id, and one for each field."""

    def __init__(self, name: str, columns: Mapping[str, Ladder]) -> None:
        self.name = name
        self.quoted_name = quote_name(name)
        self.row_column, *self.column_names = unique_names((ROW_COLUMN, *columns))
        self._fields = tuple(columns)
        self.ladders = tuple(columns.values())

    def create_sql(self, types: Sequence[int], constraint: str = "") -> str:
        """The CREATE TABLE statement. `types`: by column, the place in its ladder."""
        columns = [f"{quote_name(self.row_column)} BIGINT {constraint}".rstrip()]
        columns += [
            f"{quote_name(name)} {ladder.steps[place].name}"
            for name, ladder, place in zip(self.column_names, self.ladders, types, strict=True)
        ]
        return f"CREATE TABLE {self.quoted_name} ({', '.join(columns)})"

    def encode(self, batch: Batch, types: Sequence[int]) -> tuple[list[int], list[tuple[Any, ...]]]:
        """The places that the types must have at least, and the cells of the rows, their ids first."""
        fields = [_decode(row) for _, row in batch]
        needed: list[int] = []
        columns: list[Sequence[Any]] = [[id_ for id_, _ in batch]]
        for name, ladder, place in zip(self._fields, self.ladders, types, strict=True):
            place, cells = _encode_column([row.get(name) for row in fields], ladder, place)
            needed.append(place)
            columns.append(cells)
        return needed, list(zip(*columns, strict=True))


def build_columns(settings: Mapping[str, Any], ladder_of: Callable[[ColumnType], Ladder]) -> dict[str, Ladder]:
    """The ladders of an output's columns, by their types."""
    types = settings.get("column_types", {})
    return {name: ladder_of(types.get(name, "str")) for name in settings["columns"]}


def encode_text(value: Any) -> str:
    """Any value as a text."""
    return value if type(value) is str else encode_value(value)


def encode_integer(value: Any) -> str:
    """An integer of 64 bits."""
    if isinstance(value, NumberLiteral) and int(value) in _INT64:
        return str(value)
    raise ValueError


def encode_number(value: Any) -> str:
    """A number, with its digits."""
    if isinstance(value, NumberLiteral):
        return str(value)
    raise ValueError


def encode_bool(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError


def encode_date(value: Any) -> str:
    """A date without a time of day."""
    return date.fromisoformat(require_text(value)).isoformat()


def encode_moment(value: Any) -> str:
    """A date with a time of day, in UTC; one without a time zone stays as it is."""
    moment = datetime.fromisoformat(require_text(value))
    return (moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)).isoformat()


def encode_list(encode_item: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """Encodes a list whose items are all of one type; a single value is a list of one."""

    def encode(value: Any) -> list[Any]:
        items = value if isinstance(value, list) else [value]
        return [None if item is None else encode_item(item) for item in items]

    return encode


def _encode_column(values: Sequence[Any], ladder: Ladder, place: int) -> tuple[int, list[Cell]]:
    """The values as cells of the first type that holds them all, from a place on; with its place."""
    while True:
        encode = ladder.steps[place].encode
        try:
            return place, [None if value is None else encode(value) for value in values]
        except (ValueError, OverflowError):
            if place + 1 == len(ladder.steps):
                raise
            place += 1


def require_text(value: Any) -> str:
    """The value, if it is a text. Raises ValueError."""
    if type(value) is not str:
        raise ValueError
    return value


def _decode(row: str) -> dict[str, Any]:
    fields = decode_values(row)
    return {name: _clean(value) for name, value in fields.items()} if _UNCLEAN.search(row) else fields


def _clean(value: Any) -> Any:
    """A value without NUL; a lone surrogate becomes `?`. Databases take neither."""
    if isinstance(value, NumberLiteral):
        return value
    if isinstance(value, str):
        return encodable(value.replace("\0", ""))
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(name): _clean(item) for name, item in value.items()}
    return value
