"""The output type `jsonl`: one JSON object per line, as it is stored."""

from collections.abc import Iterable, Sequence

from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import arrange_fields
from crawl_engine.append.formats.writer import RowEncoder


class JsonlEncoder(RowEncoder):
    """Rows of one dataDef as JSON lines in UTF-8, with the declared columns in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Empty: each line names its fields."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        lines = [arrange_fields(row, self._columns) for row in rows]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")


FORMAT = FileFormat(lambda settings: JsonlEncoder(settings["columns"]))
