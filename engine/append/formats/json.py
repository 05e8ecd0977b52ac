"""The output type `json`: one array of objects, a row a line; written whole, as it has an end."""

from collections.abc import Iterable, Sequence

from engine.append.formats.file_writer import FileFormat
from engine.append.formats.row_json import arrange_fields
from engine.append.formats.writer import RowEncoder


class JsonEncoder(RowEncoder):
    """Rows of one dataDef as a JSON array in UTF-8, with the declared columns in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._separator = b"\n"

    @property
    def has_footer(self) -> bool:
        """True: the end of the array."""
        return True

    def header(self) -> bytes:
        """The start of the array."""
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
        """The end of the array."""
        return b"\n]\n"


FORMAT = FileFormat(lambda settings: JsonEncoder(settings["columns"]))
