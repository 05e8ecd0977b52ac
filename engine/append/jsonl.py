"""JSON Lines: each row is one line, as it is stored. Knows texts and bytes, no file."""

import json
from collections.abc import Iterable, Sequence

from engine.append.row_json import decode_as_text, is_subsequence, split_fields, to_one_line


class JsonlEncoder:
    """Rows of one dataDef as lines of JSON in UTF-8, of the declared columns only, in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Nothing: each line names its fields."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """Stored rows as lines."""
        lines = [to_one_line(row) if self._has_declared_order(row) else self._select_columns(row) for row in rows]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")

    def _has_declared_order(self, row: str) -> bool:
        names = tuple(decode_as_text(row))
        return names == self._columns or is_subsequence(names, self._columns)

    def _select_columns(self, row: str) -> str:
        told = split_fields(row)
        picked = (f"{json.dumps(name, ensure_ascii=False)}:{told[name]}" for name in self._columns if name in told)
        return to_one_line("{" + ",".join(picked) + "}")
