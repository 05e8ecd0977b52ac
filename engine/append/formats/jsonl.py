"""The output type `jsonl`: one JSON object per line, as it is stored."""

from collections.abc import Iterable, Sequence

from engine.append.formats.file_writer import FileFormat
from engine.append.formats.row_json import decode_as_text, is_subsequence, select_fields, to_one_line
from engine.append.formats.writer import RowEncoder


class JsonlEncoder(RowEncoder):
    """Rows of one dataDef as JSON lines in UTF-8, with the declared columns in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Empty: each line names its fields."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        columns = self._columns
        lines = [to_one_line(row if self._has_declared_order(row) else select_fields(row, columns)) for row in rows]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")

    def _has_declared_order(self, row: str) -> bool:
        names = tuple(decode_as_text(row))
        return names == self._columns or is_subsequence(names, self._columns)


FORMAT = FileFormat(lambda settings: JsonlEncoder(settings["columns"]))
