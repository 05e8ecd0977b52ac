"""Decodes stored rows for users' classes: every column in written order, numbers by the types of their fields."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from engine.append.row_json import NumberLiteral, decode_values


class RowReader:
    """Reads the rows of one dataDef. `types` and `item_types`: of fields, and of the items of fields with `all`."""

    def __init__(self, columns: Sequence[str], types: Mapping[str, str], item_types: Mapping[str, str]) -> None:
        self._columns = [(name, _reader_of(types.get(name)), _reader_of(item_types.get(name))) for name in columns]

    def read(self, text: str) -> dict[str, Any]:
        """The row; None where a value is missing."""
        fields = decode_values(text)
        row: dict[str, Any] = {}
        for name, read_value, read_item in self._columns:
            value = fields.get(name)
            if isinstance(value, NumberLiteral):
                row[name] = read_value(value)
            elif isinstance(value, list):
                row[name] = [read_item(item) if isinstance(item, NumberLiteral) else _plain(item) for item in value]
            else:
                row[name] = _plain(value)
        return row


def _number(literal: NumberLiteral) -> int | float | Decimal:
    """A number without a declared type: no digit is lost."""
    value = literal.to_value()
    return Decimal(literal) if isinstance(value, str) else value


_READERS: Mapping[str, Callable[[NumberLiteral], int | float | Decimal]] = {
    "int": lambda literal: int(str(literal)),
    "float": lambda literal: float(str(literal)),
    "decimal": Decimal,
}


def _reader_of(type_: str | None) -> Callable[[NumberLiteral], int | float | Decimal]:
    return _READERS.get(type_ or "", _number)


def _plain(value: Any) -> Any:
    if isinstance(value, NumberLiteral):
        return _number(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
