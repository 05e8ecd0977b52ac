"""The output type `jsonl`: one JSON object per line, as it is stored."""

import json
from collections.abc import Iterable, Sequence

from engine.append.formats.file_writer import FileFormat
from engine.append.formats.row_json import decode_as_text, is_subsequence, split_fields, to_one_line


class JsonlEncoder:
    """Rows of one dataDef as JSON lines in UTF-8, with the declared columns in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Empty: each line names its fields."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        lines = [to_one_line(row) if self._has_declared_order(row) else self._select_columns(row) for row in rows]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")

    def _has_declared_order(self, row: str) -> bool:
        names = tuple(decode_as_text(row))
        return names == self._columns or is_subsequence(names, self._columns)

    def _select_columns(self, row: str) -> str:
        fields = split_fields(row)
        pairs = (f"{json.dumps(name, ensure_ascii=False)}:{fields[name]}" for name in self._columns if name in fields)
        return to_one_line("{" + ",".join(pairs) + "}")


FORMAT = FileFormat(lambda settings: JsonlEncoder(settings["columns"]))
