"""The projection of rows: parts of values become fields of their own before a writer gets the rows.

This is the one place for all built-in types: `create_writer` puts it before their writers. Their settings have the
columns, types and joins of the projected rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from crawl_engine.append.formats.row_json import join_fields, split_fields

_Text = TypeVar("_Text", str, str | None)


class RowProjection:
    """Makes rows of `columns`. `paths` has the field and the part of each column that is a part of a field."""

    def __init__(self, columns: Sequence[str], paths: Mapping[str, tuple[str, str]]) -> None:
        self._columns = tuple(columns)
        self._paths = dict(paths)

    def apply(self, batch: Iterable[tuple[int, _Text]]) -> list[tuple[int, _Text]]:
        """The same rows with these columns; a row that is None stays so."""
        return [(id_, row if row is None else self._project(row)) for id_, row in batch]

    def _project(self, row: str) -> str:
        fields = split_fields(row)
        parts: dict[str, dict[str, str]] = {}
        for name in {name for name, _ in self._paths.values()}:
            value = fields.get(name, "")
            parts[name] = split_fields(value) if value.startswith("{") else {}
        projected: dict[str, str] = {}
        for column in self._columns:
            name, part = self._paths.get(column, (column, ""))
            text = parts[name].get(part) if part else fields.get(name)
            if text is not None:
                projected[column] = text
        return join_fields(projected)


def projection_of(settings: Mapping[str, Any]) -> RowProjection | None:
    """The projection of an output with these settings; None: its rows are written as they are stored."""
    if "paths" not in settings:
        return None
    return RowProjection(
        settings["columns"], {column: (name, part) for column, (name, part) in settings["paths"].items()}
    )
