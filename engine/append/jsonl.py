"""JSON Lines: each row is one line, as it is stored. Knows texts and bytes, no file."""

import json
from collections.abc import Iterable, Sequence

from engine.append.row_json import as_texts, in_order, one_line, parts


class JsonlEncoder:
    """Rows of one dataDef as lines of JSON in UTF-8, of the declared columns only, in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Nothing: each line names its fields."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """Stored rows as lines."""
        lines = [one_line(row) if self._whole(row) else self._picked(row) for row in rows]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")

    def _whole(self, row: str) -> bool:
        names = tuple(as_texts(row))
        return names == self._columns or in_order(names, self._columns)

    def _picked(self, row: str) -> str:
        told = parts(row)
        picked = (f"{json.dumps(name, ensure_ascii=False)}:{told[name]}" for name in self._columns if name in told)
        return one_line("{" + ",".join(picked) + "}")
