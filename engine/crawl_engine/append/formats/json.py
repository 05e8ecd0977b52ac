"""The output type `json`: one array of objects, a row a line; written whole, as it has an end."""

from collections.abc import Iterable, Sequence

from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import arrange_fields
from crawl_engine.append.formats.writer import RowEncoder


class JsonEncoder(RowEncoder):
    """Rows of one dataDef as a JSON array in UTF-8, with the declared columns in their order."""

    has_footer = True

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._separator = b"\n"

    def header(self) -> bytes:
        self._separator = b"\n"
        return b"["

    def rows(self, rows: Iterable[str]) -> bytes:
        """The objects of stored rows, with a comma between two."""
        lines = [arrange_fields(row, self._columns) for row in rows]
        if not lines:
            return b""
        start, self._separator = self._separator, b",\n"
        return start + ",\n".join(lines).encode("utf-8", "replace")

    def footer(self) -> bytes:
        return b"\n]\n"


FORMAT = FileFormat(lambda settings: JsonEncoder(settings["columns"]))
